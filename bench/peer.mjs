// peer.mjs - this engine beside node-llama-cpp, same files, same machine, one run.
//
//   node bench/peer.mjs [--bin DIRECTORY] [--cache DIRECTORY] [--size 1b] [--threads 2]
//                       [--rounds 3] [--only ROW[,ROW...]] [--formats 100m]
//
// Installs the peer from npm into the cache directory, outside the tree, writes
// random models there and measures both in turns, so that what else the machine
// does meets both alike. Prints the median ratio of each row, ours to theirs, as a
// Markdown table. --formats SIZE measures every format instead, in models of SIZE.
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { startServer } from "./server.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const peerVersion = "3.21.1";
const options = {
  bin: join(here, "../build/release/bin"),
  cache: join(process.env.XDG_CACHE_HOME || join(homedir(), ".cache"), "mlxcel-peer"),
  size: "1b",
  threads: "2",
  rounds: "3",
  only: "",
  formats: "",
};
for (let i = 2; i < process.argv.length; i += 2) {
  const name = process.argv[i].replace(/^--/, "");
  if (!(name in options) || i + 1 >= process.argv.length)
    throw new Error(`unknown argument ${process.argv[i]}`);
  options[name] = process.argv[i + 1];
}
const threads = Number(options.threads);
const rounds = Number(options.rounds);

// ---- what is measured -------------------------------------------------------------

const speed = { prompt: 0, generate: 0, depth: 0, clients: 1 };
const rows = [
  ...["q4_k_m", "q8_0", "q4_0", "f16"].map((type) => (
    { name: `prompt 512, ${type}`, type, ...speed, prompt: 512, value: "prompt" })),
  ...[16384, 40960].map((prompt) => (
    { name: `prompt ${prompt}, q4_k_m`, type: "q4_k_m", ...speed, prompt, value: "prompt" })),
  ...["q4_k_m", "q8_0", "q4_0", "f16"].map((type) => (
    { name: `generation, ${type}`, type, ...speed, generate: 32, depth: 16, value: "generation" })),
  ...[1024, 4096].map((depth) => (
    { name: `generation at depth ${depth}, q4_k_m`, type: "q4_k_m", ...speed, generate: 32, depth,
      value: "generation" })),
  { name: "eight clients generating, q4_k_m", type: "q4_k_m", ...speed, generate: 32, depth: 16,
    clients: 8, value: "generation" },
  { name: "prompt 512, MLX 4 bits to q4_0", type: "q4_0", ours: "mlx4", ...speed, prompt: 512,
    value: "prompt" },
  { name: "generation, MLX 4 bits to q4_0", type: "q4_0", ours: "mlx4", ...speed, generate: 32,
    depth: 16, value: "generation" },
  { name: "start to ready, q4_k_m (time: less is better)", type: "q4_k_m", ...speed, generate: 1,
    depth: 16, value: "ready" },
  { name: "resident memory, q4_k_m (less is better)", type: "q4_k_m", ...speed, prompt: 512,
    generate: 16, value: "resident" },
];
const formats = ["f16", "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q2_k", "q3_k_s", "q3_k_m",
  "q4_k_s", "q4_k_m", "q5_k_m", "q6_k", "iq4_nl", "iq4_xs", "iq3_s", "tq1_0", "tq2_0", "q1_0",
  "q2_0"];

// ---- the peer, the models -----------------------------------------------------------

function installPeer() {
  const module = join(options.cache, "node_modules/node-llama-cpp/dist/index.js");
  if (existsSync(module)) return module;
  mkdirSync(options.cache, { recursive: true });
  writeFileSync(join(options.cache, "package.json"), '{"private": true, "type": "module"}\n');
  execFileSync("npm", ["install", "--no-audit", "--no-fund", `node-llama-cpp@${peerVersion}`],
    { cwd: options.cache, stdio: "inherit" });
  return module;
}

function modelFile(size, type) {
  const file = join(options.cache, `${size}-${type}.gguf`);
  if (!existsSync(file))
    execFileSync(join(options.bin, "mlxcel"),
      ["bench", "--synthetic", `llama:${size}:${type}`, "--write", file]);
  return file;
}

// ---- one measurement ------------------------------------------------------------------

const module = installPeer();

function theirs(file, row) {
  const { prompt, generate, depth, clients } = row;
  const child = spawnSync(process.execPath, [join(here, "peer_child.mjs"), module, file,
    JSON.stringify({ prompt, generate, depth, clients, threads })], { encoding: "utf8" });
  if (child.status !== 0) return null; // a format that it does not know
  return JSON.parse(child.stdout.trim().split("\n").at(-1))[row.value];
}

function ours(source, row) {
  const text = execFileSync(join(options.bin, "mlxcel"), ["bench", ...source,
    "-p", String(row.prompt), "-n", String(row.generate), "-d", String(row.depth),
    "--clients", String(row.clients), "-t", String(threads), "-r", "1", "--json"],
    { encoding: "utf8" });
  return JSON.parse(text).results.find((r) => r.test === row.value).tokens_per_second;
}

// A server from its start to its first answer, and what it holds after one more.
async function ourServer(file, row) {
  const begin = performance.now();
  const server = await startServer(join(options.bin, "mlxcel-server"),
    ["-m", file, "--port", "0", "-t", String(threads), "-c", "1024", "-np", "1"]);
  const ready = (performance.now() - begin) / 1000;
  const prompt = Array.from({ length: row.prompt || 16 }, (_, i) => 10 + (i % 200));
  await fetch(`${server.url}/completion`, { method: "POST",
    body: JSON.stringify({ prompt, n_predict: row.generate, ignore_eos: true }) });
  const kib = Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${server.process.pid}/status`, "utf8"))[1]);
  server.process.kill("SIGKILL");
  return { ready, resident: kib * 1024 };
}

// ---- tables ---------------------------------------------------------------------------------

const median = (list) => [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)];
const digits = (x) => (x >= 1e6 ? `${(x / 1048576).toFixed(0)} MiB` : x >= 100 ? x.toFixed(0) : x.toFixed(2));

async function measure(row, size) {
  const file = modelFile(size, row.type);
  const pairs = [];
  for (let i = 0; i < rounds; i++) {
    const other = theirs(file, row);
    const own = row.value === "ready" || row.value === "resident"
      ? (await ourServer(file, row))[row.value]
      : ours(row.ours ? ["--synthetic", `llama:${size}:${row.ours}`] : ["-m", file], row);
    pairs.push({ own, other, ratio: other ? own / other : NaN });
  }
  return {
    own: median(pairs.map((p) => p.own)),
    other: pairs[0].other === null ? null : median(pairs.map((p) => p.other)),
    ratio: median(pairs.map((p) => p.ratio)),
  };
}

const cells = (m) =>
  m.other === null ? `${digits(m.own)} | not read | ` : `${digits(m.own)} | ${digits(m.other)} | ${m.ratio.toFixed(2)}`;

if (options.formats) {
  console.log("| format | prompt 128 | theirs | ratio | generation | theirs | ratio |");
  console.log("|---|---|---|---|---|---|---|");
  for (const type of formats) {
    if (options.only && !options.only.split(",").includes(type)) continue;
    const prompt = await measure({ type, ...speed, prompt: 128, value: "prompt" }, options.formats);
    const generation = await measure(
      { type, ...speed, generate: 32, depth: 16, value: "generation" }, options.formats);
    console.log(`| ${type} | ${cells(prompt)} | ${cells(generation)} |`);
  }
} else {
  console.log(`| ${options.size}, ${threads} threads, median of ${rounds} | ours | theirs | ratio |`);
  console.log("|---|---|---|---|");
  for (const row of rows) {
    if (options.only && !options.only.split(",").some((part) => row.name.includes(part))) continue;
    console.log(`| ${row.name} | ${cells(await measure(row, options.size))} |`);
  }
}
