// peer_child.mjs - one measurement of node-llama-cpp, in a process of its own.
//
//   node bench/peer_child.mjs MODULE FILE JSON
//
// JSON: {prompt, generate, depth, clients, threads}. Prints a line of JSON: tokens
// per second of prompt and generation, seconds until ready, resident bytes that
// the model and its context added.
import { pathToFileURL } from "node:url";

const [module, file, text] = process.argv.slice(2);
const want = JSON.parse(text);
const { getLlama } = await import(pathToFileURL(module).href);
const llama = await getLlama({ gpu: false, logLevel: "error", build: "never", maxThreads: want.threads });
const restingBytes = process.memoryUsage().rss;
const begin = performance.now();
const model = await llama.loadModel({ modelPath: file });
const size = want.depth + want.prompt + want.generate + 64;
const context = await model.createContext({
  contextSize: size, sequences: want.clients, batchSize: 512, threads: want.threads,
});
const ready = (performance.now() - begin) / 1000;

const tokens = (n, salt) => Array.from({ length: n }, (_, i) => 10 + ((i * 7 + salt) % 200));

// Seconds until the first token of each client, then for `generate` more of each.
async function run(nPrompt) {
  const sequences = Array.from({ length: want.clients }, () => context.getSequence());
  const start = performance.now();
  let nFirst = 0;
  let allFirst = 0;
  let nMore = 0;
  let everyoneHasOne;
  const gate = new Promise((resolve) => (everyoneHasOne = resolve));
  await Promise.all(sequences.map(async (sequence, i) => {
    let n = -1;
    for await (const _ of sequence.evaluate(tokens(nPrompt, i),
      { temperature: 0, yieldEogToken: true })) {
      if (++n > 0) nMore++;
      else {
        if (++nFirst === want.clients) {
          allFirst = performance.now();
          everyoneHasOne();
        }
        await gate;
      }
      if (n >= want.generate) break;
    }
  }));
  const end = performance.now();
  for (const sequence of sequences) sequence.dispose();
  return { first: (allFirst - start) / 1000, rest: (end - allFirst) / 1000, nMore };
}

const times = await run(want.depth + want.prompt);
console.log(JSON.stringify({
  prompt: (want.depth + want.prompt) / times.first,
  generation: times.nMore / times.rest,
  ready,
  resident: process.memoryUsage().rss - restingBytes,
}));
process.exit(0);
