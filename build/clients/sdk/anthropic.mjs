// A small tool-calling client on Anthropic's Node SDK; it is called like
// openai.mjs.
import Anthropic from '@anthropic-ai/sdk';
import {answer, load, parameters, rounds, save} from './history.mjs';

const [, , baseURL, file, prompt] = process.argv;
const client = new Anthropic({apiKey: 'sk-ant-dummy', baseURL});
const tools = [{name: 'bash', description: 'Run a command', input_schema: parameters}];
const system = [{type: 'text', text: 'You run commands.', cache_control: {type: 'ephemeral'}}];
const messages = [...load(file), {role: 'user', content: prompt}];

for (const _ of rounds()) {
  const stream = client.messages.stream({model: 'stub-model', max_tokens: 4000, thinking: {type: 'enabled', budget_tokens: 1024}, system, messages, tools});
  const {content} = await stream.finalMessage();
  messages.push({role: 'assistant', content});
  const calls = content.filter((b) => b.type === 'tool_use');
  if (!calls.length) {
    save(file, messages);
    console.log(content.filter((b) => b.type === 'text').map((b) => b.text).join(''));
    break;
  }
  messages.push({role: 'user', content: calls.map((c) => ({type: 'tool_result', tool_use_id: c.id, content: answer(JSON.stringify(c.input))}))});
}
