// What the two SDK clients share.
import {existsSync, readFileSync, writeFileSync} from 'node:fs';

export const parameters = {type: 'object', properties: {command: {type: 'string'}}, required: ['command']};

// answer is what the tool returns: its own arguments, so that a changed call
// shows in the next request.
export const answer = (args) => `ran ${args}`;

export const load = (file) => (existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : []);
export const save = (file, history) => writeFileSync(file, JSON.stringify(history));

// rounds bounds the tool loop, so that a script that never ends fails.
export function* rounds() {
  for (let i = 0; i < 8; i++) yield i;
  throw new Error('the model never stopped calling tools');
}
