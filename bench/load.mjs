// load.mjs - the HTTP front under load and under attack.
//
//   node bench/load.mjs [--server BINARY] [--model GGUF] [--quick] [--only NAME]
//
// Starts mlxcel-server on the story model, with and without TLS, and checks what
// docs/load.md promises. Prints one line a check; exit code 1 when one fails.
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, dirname } from "node:path";
import { fileURLToPath } from "node:url";
import http from "node:http";
import https from "node:https";
import net from "node:net";
import tls from "node:tls";
import { startServer } from "./server.mjs";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const shared = process.env.MLXCEL_SHARED || join(root, "../shared");
const options = parseArguments(process.argv.slice(2));
if (!existsSync(options.model)) {
  console.log(`SKIPPED: the reference data (${shared}) is absent`);
  process.exit(process.env.CI ? 1 : 77);
}
const scratch = mkdtempSync(join(tmpdir(), "mlxcel-load-"));
let failures = 0;

function parseArguments(args) {
  const found = {
    server: join(root, "build/release/bin/mlxcel-server"),
    model: join(shared, "models/stories260k/stories260K.gguf"),
    quick: false,
    only: null,
  };
  for (let i = 0; i < args.length; i++) {
    const name = args[i].replace(/^--/, "");
    if (!(name in found)) throw new Error(`unknown argument ${args[i]}`);
    found[name] = name === "quick" ? true : args[++i];
  }
  return found;
}

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const now = () => performance.now();

function report(name, ok, text) {
  if (!ok) failures++;
  console.log(`${ok ? "ok    " : "FAILED"} ${name}: ${text}`);
}

// ---- the server ----------------------------------------------------------------

class Server {
  static async start(extra, { secure = false } = {}) {
    const server = new Server();
    server.secure = secure;
    const args = ["-m", options.model, "--port", "0", "-s", "1", "--slots", ...extra];
    if (secure) args.push(...certificate());
    const { process, url } = await startServer(options.server, args);
    server.process = process;
    server.port = Number(new URL(url).port);
    server.exited = new Promise((resolve) => process.on("exit", (code) => resolve(code)));
    return server;
  }

  async stop() {
    this.process.kill("SIGTERM");
    return await this.exited;
  }

  connect() {
    const at = { port: this.port, host: "127.0.0.1", rejectUnauthorized: false };
    return this.secure ? tls.connect(at) : net.connect(at);
  }

  // A request's whole answer, or its stream's events.
  ask(path, body, agent) {
    const module = this.secure ? https : http;
    return new Promise((resolve, reject) => {
      const request = module.request(
        { port: this.port, host: "127.0.0.1", path, method: body ? "POST" : "GET", agent,
          rejectUnauthorized: false },
        (response) => {
          let text = "";
          response.setEncoding("utf8");
          response.on("data", (data) => (text += data));
          response.on("end", () => resolve({ status: response.statusCode, text, complete: response.complete }));
          response.on("error", reject);
        });
      request.on("error", reject);
      request.end(body ? JSON.stringify(body) : undefined);
    });
  }

  residentKiB() {
    const status = readFileSync(`/proc/${this.process.pid}/status`, "utf8");
    return Number(/VmRSS:\s+(\d+)/.exec(status)[1]);
  }

  descriptors() {
    return readdirSync(`/proc/${this.process.pid}/fd`).length;
  }

  async idle(timeout = 10000) {
    const end = now() + timeout;
    while (now() < end) {
      const slots = JSON.parse((await this.ask("/slots")).text);
      if (slots.every((slot) => !slot.is_processing)) return true;
      await sleep(100);
    }
    return false;
  }
}

function certificate() {
  const key = join(scratch, "key.pem"), cert = join(scratch, "cert.pem");
  execFileSync("openssl", ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
    "-nodes", "-days", "2", "-subj", "/CN=localhost", "-keyout", key, "-out", cert], { stdio: "ignore" });
  return ["--ssl-key-file", key, "--ssl-cert-file", cert];
}

// ---- the work --------------------------------------------------------------------

const starts = ["Once upon a time", "One day", "Lily was", "The dog", "Tim had", "She saw", "There was a big",
  "The little girl", "A cat and a dog", "Mom said"];
const prompts = starts.flatMap((start) => ["", " a", " the", " and", " very"].map((end) => start + end));
const request = (prompt, n = 24) => ({ prompt, n_predict: n, temperature: 0, stream: true });

function textOf(answer) {
  const events = answer.text.split("\n\n").filter((event) => event.startsWith("data: "));
  const parts = events.map((event) => JSON.parse(event.slice(6)));
  const ended = parts.length > 0 && parts[parts.length - 1].stop === true;
  return { text: parts.map((part) => part.content).join(""), ended: ended && answer.complete };
}

async function expectations(server) {
  const texts = new Map();
  for (const prompt of prompts) texts.set(prompt, textOf(await server.ask("/completion", request(prompt))).text);
  return texts;
}

async function streams(server, name, nClients, nRequests) {
  const expected = await expectations(server);
  const module = server.secure ? https : http;
  const agent = new module.Agent({ keepAlive: true, maxSockets: nClients, rejectUnauthorized: false });
  let next = 0, wrong = 0, broken = 0, slowest = 0;
  const begin = now();
  async function client() {
    while (next < nRequests) {
      const prompt = prompts[next++ % prompts.length];
      const started = now();
      try {
        const answer = textOf(await server.ask("/completion", request(prompt), agent));
        if (!answer.ended) broken++;
        else if (answer.text !== expected.get(prompt)) wrong++;
      } catch {
        broken++;
      }
      slowest = Math.max(slowest, now() - started);
    }
  }
  await Promise.all(Array.from({ length: nClients }, client));
  const seconds = (now() - begin) / 1000;
  agent.destroy();
  report(name, wrong === 0 && broken === 0,
    `${nRequests} streams from ${nClients} clients in ${seconds.toFixed(1)} s, ` +
    `${(nRequests * 24 / seconds).toFixed(0)} tokens/s, slowest ${(slowest / 1000).toFixed(1)} s, ` +
    `${wrong} wrong, ${broken} incomplete`);
}

// Connections that go at any moment: before a byte, within the head or the body,
// while queued, within the stream.
async function droppers(server, name, nConnections) {
  const head = (body) => `POST /completion HTTP/1.1\r\nHost: a\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n`;
  await expectations(server);
  const warm = async (n) => {
    let next = 0;
    async function one() {
      while (next < n) {
        const i = next++;
        const body = JSON.stringify(request(prompts[i % prompts.length], 200));
        const whole = head(body) + body;
        const cut = [0, 20, head(body).length + 5, whole.length][i % 4];
        await new Promise((resolve) => {
          const socket = server.connect();
          const go = () => {
            if (cut) socket.write(whole.slice(0, cut));
            setTimeout(() => { socket.destroy(); resolve(); }, Math.random() * 40);
          };
          socket.on("error", () => resolve());
          socket.on(server.secure ? "secureConnect" : "connect", go);
        });
      }
    }
    await Promise.all(Array.from({ length: 128 }, one));
  };
  // The first thousand makes the allocator's pools what they will stay.
  await warm(Math.min(1000, nConnections / 4));
  await server.idle();
  await sleep(1000);
  const memory = server.residentKiB(), descriptors = server.descriptors();
  const begin = now();
  await warm(nConnections);
  const seconds = (now() - begin) / 1000;
  const idle = await server.idle();
  await sleep(1500);
  const grown = server.residentKiB() - memory, leaked = server.descriptors() - descriptors;
  report(name, idle && grown < 16 * 1024 && leaked <= 0,
    `${nConnections} connections dropped in ${seconds.toFixed(1)} s; slots ${idle ? "idle" : "BUSY"}, ` +
    `memory ${grown >= 0 ? "+" : ""}${(grown / 1024).toFixed(1)} MiB, descriptors ${leaked >= 0 ? "+" : ""}${leaked}`);
}

async function timeOf(server, n) {
  const begin = now();
  for (let i = 0; i < n; i++) await server.ask("/completion", request(prompts[i % prompts.length]));
  return (now() - begin) / n;
}

// Readers that take nothing: their sockets fill up, their slots must not wait.
async function slowReaders(server, name, nReaders) {
  const before = await timeOf(server, 20);
  const sockets = [];
  for (let i = 0; i < nReaders; i++) {
    const socket = server.connect();
    socket.on("error", () => {});
    await new Promise((resolve) => socket.on(server.secure ? "secureConnect" : "connect", resolve));
    socket.pause();
    const body = JSON.stringify({ ...request(prompts[i % prompts.length], 200), n_probs: 40 });
    socket.write(`POST /completion HTTP/1.1\r\nHost: a\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
    sockets.push(socket);
  }
  const idle = await server.idle(60000); // all generated, though nobody reads
  const during = await timeOf(server, 20);
  for (const socket of sockets) socket.destroy();
  // How long it takes is for a machine that does nothing else: not judged in a test.
  report(name, idle && (options.quick || during < before * 2 + 20),
    `a request takes ${before.toFixed(1)} ms alone and ${during.toFixed(1)} ms beside ${nReaders} readers that ` +
    `take nothing; their slots ${idle ? "were free again" : "STAYED BUSY"}`);
}

async function slowSenders(name, extra, secure) {
  const server = await Server.start([...extra, "--timeout", "2"], { secure });
  const kinds = { head: "GET /health HTT", body: "POST /completion HTTP/1.1\r\nHost: a\r\nContent-Length: 999\r\n\r\n{" };
  const taken = {};
  for (const [kind, begin] of Object.entries(kinds)) {
    taken[kind] = await new Promise((resolve) => {
      const started = now(), socket = server.connect();
      const timer = setInterval(() => socket.write("x"), 200);
      const done = () => { clearInterval(timer); socket.destroy(); resolve((now() - started) / 1000); };
      socket.on("error", done);
      socket.on("close", done);
      socket.on("end", done);
      socket.on(secure ? "secureConnect" : "connect", () => socket.write(begin));
      socket.resume();
      setTimeout(done, 10000);
    });
  }
  await server.stop();
  report(name, Object.values(taken).every((s) => s < 5),
    `with --timeout 2 a trickled head is cut off after ${taken.head.toFixed(1)} s, a trickled body after ${taken.body.toFixed(1)} s`);
}

// ---- all of it ------------------------------------------------------------------------

const scale = options.quick ? 10 : 1;
const extra = ["-np", "32", "-c", "8192", "-n", "256"];

async function suite(secure) {
  const suffix = secure ? " (TLS)" : "";
  const wanted = (name) => !options.only || (name + suffix).includes(options.only);
  const server = await Server.start(extra, { secure });
  if (wanted("streams")) await streams(server, "streams" + suffix, 512 / (options.quick ? 4 : 1), 2000 / scale);
  if (wanted("droppers")) await droppers(server, "droppers" + suffix, 10000 / scale);
  if (wanted("slow readers")) await slowReaders(server, "slow readers" + suffix, 64);
  if (wanted("stop")) {
    const begin = now();
    const code = await server.stop();
    report("stop" + suffix, code === 0 && now() - begin < 5000, `exit code ${code} after ${((now() - begin) / 1000).toFixed(1)} s`);
  } else {
    await server.stop();
  }
  if (wanted("slow senders")) await slowSenders("slow senders" + suffix, ["-np", "1", "-c", "256"], secure);
}

try {
  await suite(false);
  await suite(true);
} finally {
  rmSync(scratch, { recursive: true, force: true });
}
process.exit(failures ? 1 : 0);
