// gaps.mjs - how long a running stream waits while a long prompt arrives.
//
//   node bench/gaps.mjs -m FILE [--bin DIRECTORY] [--prompt 8192] [--ubatch 512] [--threads 2]
//
// One client streams; then another sends a prompt of 8192 tokens, and once more when
// the stream has ended: what a chunk of it takes alone, in the mean. Prints the
// histogram of the gaps between the stream's tokens before and while the prompt is
// read, and the longest one beside its bound: 2.5 usual gaps and one chunk's time.
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { startServer } from "./server.mjs";

const options = {
  m: "",
  bin: join(dirname(fileURLToPath(import.meta.url)), "../build/release/bin"),
  prompt: "8192",
  ubatch: "512",
  threads: "2",
};
for (let i = 2; i < process.argv.length; i += 2) {
  const name = process.argv[i].replace(/^--?/, "");
  if (!(name in options) || i + 1 >= process.argv.length)
    throw new Error(`unknown argument ${process.argv[i]}`);
  options[name] = process.argv[i + 1];
}
if (!options.m) throw new Error("name a model: -m FILE");
const nPrompt = Number(options.prompt);
const nBefore = 64;

const { process: server, url } = await startServer(join(options.bin, "mlxcel-server"),
  ["-m", options.m, "--port", "0", "-t", options.threads, "-np", "2", "-c", String(2 * (nPrompt + 1024)),
    "-ub", options.ubatch, "--no-context-shift"]);

const tokens = (n) => Array.from({ length: n }, (_, i) => 10 + ((i * 7) % 200));
const post = (body, signal) => fetch(`${url}/completion`,
  { method: "POST", body: JSON.stringify({ ignore_eos: true, cache_prompt: false, stream: true, ...body }), signal });

// The times between a stream's events.
async function* gapsOf(answer) {
  let last = 0;
  for await (const part of answer.body) {
    if (!new TextDecoder().decode(part).includes("data: ")) continue;
    const now = performance.now();
    if (last) yield now - last;
    last = now;
  }
}

// How long a chunk of the prompt takes, in the mean.
async function readPrompt() {
  const answer = await post({ prompt: tokens(nPrompt), n_predict: 1, stream: false });
  return (await answer.json()).timings.prompt_ms / (nPrompt / Number(options.ubatch));
}

const gaps = { before: [], during: [] };
const leave = new AbortController();
let other = null;
try {
  const stream = await post({ prompt: tokens(16), n_predict: -1 }, leave.signal);
  for await (const gap of gapsOf(stream)) {
    gaps[other ? "during" : "before"].push(gap);
    if (gaps.before.length === nBefore) other ??= readPrompt().finally(() => leave.abort());
  }
} catch (error) {
  if (error.name !== "AbortError") throw error;
}
await other;
const chunk = await readPrompt();
server.kill("SIGKILL");

const usual = gaps.before.sort((a, b) => a - b)[nBefore >> 1];
const longest = Math.max(...gaps.during);
const bound = 2.5 * usual + chunk;
for (const name of ["before", "during"]) {
  console.log(`gaps ${name} the prompt (${gaps[name].length}):`);
  for (let edge = 1; edge < 1e6; edge *= 2) {
    const n = gaps[name].filter((gap) => gap >= edge / 2 && gap < edge).length;
    if (n > 0) console.log(`  ${String(edge / 2).padStart(7)} .. ${String(edge).padEnd(7)} ms  ${"#".repeat(Math.ceil((60 * n) / gaps[name].length))} ${n}`);
  }
}
console.log(`usual gap ${usual.toFixed(1)} ms, a chunk alone ${chunk.toFixed(0)} ms, longest gap while the prompt ` +
  `arrived ${longest.toFixed(0)} ms, bound ${bound.toFixed(0)} ms: ${longest <= bound ? "within" : "PAST"} it`);
