// check.mjs FOLDER SCHEMAS - read generated documents from standard input and
// validate each against its schema with ajv (from FOLDER/node_modules).
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import { resolve } from 'node:path';

const [folder, file] = process.argv.slice(2);
const require = createRequire(`${resolve(folder)}/package.json`);
const Ajv = require('ajv/dist/2020').default;
const addFormats = require('ajv-formats').default;
const ajv = new Ajv({ strict: false, allowUnionTypes: true });
addFormats(ajv);

const entries = JSON.parse(readFileSync(file, 'utf8'));
const seen = entries.map(() => new Map());
const refused = entries.map(() => null);
const validators = entries.map((e) => (e.refused ? null : ajv.compile(e.schema)));
let failures = 0;
const fail = (message) => {
  if (++failures <= 20) console.error(message);
};

for await (const line of createInterface({ input: process.stdin })) {
  const { schema: i, text, refused: why } = JSON.parse(line);
  if (why !== undefined) {
    refused[i] = why;
    continue;
  }
  seen[i].set(text, (seen[i].get(text) ?? 0) + 1);
  let value;
  try {
    value = JSON.parse(text);
  } catch (e) {
    fail(`schema ${i}: not JSON: ${text}`);
    continue;
  }
  if (validators[i] && !validators[i](value))
    fail(`schema ${i} ${JSON.stringify(entries[i].schema)}: ${text}: ${ajv.errorsText(validators[i].errors)}`);
}

let accepted = 0;
entries.forEach((entry, i) => {
  const total = [...seen[i].values()].reduce((a, b) => a + b, 0);
  if (entry.refused) {
    if (!refused[i]?.includes(entry.refused)) fail(`schema ${i} was to be refused for ${entry.refused}: ${refused[i]}`);
    return;
  }
  accepted++;
  if (refused[i]) fail(`schema ${i} ${JSON.stringify(entry.schema)} was refused: ${refused[i]}`);
  else if (total < 200) fail(`schema ${i}: only ${total} documents`);
  else if (!entry.alike && seen[i].size < 2) fail(`schema ${i}: all documents are alike`);
});
console.log(`${accepted} schemas, ${entries.length - accepted} refused, ${failures} failures`);
process.exit(failures || accepted < 60 ? 1 : 0);
