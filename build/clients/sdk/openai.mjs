// A small tool-calling client on OpenAI's Node SDK:
//
//   node openai.mjs BASE_URL HISTORY_FILE PROMPT [HEADER VALUE]
//
// HISTORY_FILE keeps the conversation between runs: a second run with the same
// file is a resume in a new process. The reply's text goes to standard output.
import OpenAI from 'openai';
import {answer, load, parameters, rounds, save} from './history.mjs';

const [, , baseURL, file, prompt, header, value] = process.argv;
const client = new OpenAI({apiKey: 'sk-dummy', baseURL, defaultHeaders: header ? {[header]: value} : {}});
const tools = [{type: 'function', function: {name: 'bash', description: 'Run a command', parameters}}];
const messages = [...load(file), {role: 'user', content: prompt}];

for (const _ of rounds()) {
  const stream = client.chat.completions.stream({model: 'stub-model', messages, tools, stream_options: {include_usage: true}});
  const {message} = (await stream.finalChatCompletion()).choices[0];
  messages.push(message);
  if (!message.tool_calls?.length) {
    save(file, messages);
    console.log(message.content);
    break;
  }
  for (const call of message.tool_calls) {
    messages.push({role: 'tool', tool_call_id: call.id, content: answer(call.function.arguments)});
  }
}
