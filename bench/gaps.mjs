// gaps.mjs - how long a running stream waits while a long prompt arrives.
//
//   node bench/gaps.mjs -m FILE [--bin DIRECTORY] [--prompt 8192] [--ubatch 512] [--threads 2]
//
// One client streams; then another sends a prompt of 8192 tokens. Prints the
// histogram of the gaps between the stream's tokens before and while the prompt is
// read, and the longest one beside its bound: 2.5 usual gaps and one chunk's time.
import { spawn } from "node:child_process";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

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

const server = spawn(join(options.bin, "mlxcel-server"),
  ["-m", options.m, "--port", "0", "-t", options.threads, "-np", "2", "-c", String(2 * (nPrompt + 1024)),
    "-ub", options.ubatch, "--no-context-shift"], { stdio: ["ignore", "ignore", "pipe"] });
const url = await new Promise((resolve, reject) => {
  let log = "";
  server.on("exit", () => reject(new Error(`the server ended:\n${log}`)));
  server.stderr.on("data", (data) => {
    log += data;
    const ready = /server is ready on (\S+)/.exec(log);
    if (ready) resolve(ready[1]);
  });
});
server.removeAllListeners("exit");

const tokens = (n) => Array.from({ length: n }, (_, i) => 10 + ((i * 7) % 200));
const post = (body, signal) => fetch(`${url}/completion`,
  { method: "POST", body: JSON.stringify({ ignore_eos: true, cache_prompt: false, ...body }), signal });

const gaps = { before: [], during: [] };
let phase = "before";
let chunk = 0;
const leave = new AbortController();
const stream = await post({ prompt: tokens(16), n_predict: -1, stream: true }, leave.signal);
let last = 0;
let other = null;
try {
  for await (const part of stream.body) {
    const now = performance.now();
    const n = new TextDecoder().decode(part).split("data: ").length - 1;
    if (last && n > 0) gaps[phase].push(now - last);
    last = now;
    if (phase === "before" && gaps.before.length >= nBefore) {
      phase = "during";
      other = post({ prompt: tokens(nPrompt), n_predict: 1 }).then(async (answer) => {
        const { timings } = await answer.json();
        chunk = timings.prompt_ms / Math.ceil(timings.prompt_n / Number(options.ubatch));
        leave.abort();
      });
    }
  }
} catch (error) {
  if (error.name !== "AbortError") throw error;
}
await other;
server.kill("SIGKILL");

const usual = [...gaps.before].sort((a, b) => a - b)[nBefore >> 1];
const longest = Math.max(...gaps.during);
const bound = 2.5 * usual + chunk;
for (const name of ["before", "during"]) {
  console.log(`gaps ${name} the prompt (${gaps[name].length}):`);
  for (let edge = 1; edge < 1e6; edge *= 2) {
    const n = gaps[name].filter((gap) => gap >= edge / 2 && gap < edge).length;
    if (n > 0) console.log(`  ${String(edge / 2).padStart(7)} .. ${String(edge).padEnd(7)} ms  ${"#".repeat(Math.ceil((60 * n) / gaps[name].length))} ${n}`);
  }
}
console.log(`usual gap ${usual.toFixed(1)} ms, a chunk ${chunk.toFixed(0)} ms, longest gap while the prompt ` +
  `arrived ${longest.toFixed(0)} ms, bound ${bound.toFixed(0)} ms: ${longest <= bound ? "within" : "PAST"} it`);
