// check.mjs SERVER MODEL - what clients that people use get from a running server.
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import assert from "node:assert/strict";
import OpenAI from "openai";
import Anthropic from "@anthropic-ai/sdk";
import { startServer } from "./server.mjs";

const [program, model] = process.argv.slice(2);
const scratch = mkdtempSync(join(tmpdir(), "mlxcel-clients-"));
const running = [];
let failures = 0;

async function start(...extra) {
  const server = await startServer(program, ["-m", model, "-c", "1024", "-np", "2", "-s", "1", "--alias", "stories",
    "--chat-template", "chatml", ...extra]);
  running.push(server.process);
  return server.url;
}

async function check(name, body) {
  try {
    await body();
    console.log(`ok     ${name}`);
  } catch (error) {
    failures++;
    console.log(`FAILED ${name}: ${error.stack}`);
  }
}

const messages = [{ role: "user", content: "Tell me a story" }];
const tools = [{ type: "function", function: { name: "test", description: "a test",
  parameters: { type: "object", properties: { ok: { type: "boolean" } }, required: ["ok"] } } }];

async function openaiChecks(url) {
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "secret", maxRetries: 0 });
  await check("openai: models", async () => {
    const list = await client.models.list();
    assert.equal(list.data[0].id, "stories");
  });
  await check("openai: completions", async () => {
    const answer = await client.completions.create({ model: "stories", prompt: "Once upon a time", max_tokens: 8, temperature: 0 });
    assert.equal(answer.choices[0].text, ", there was a little girl");
    assert.equal(answer.usage.completion_tokens, 8);
  });
  await check("openai: a completions stream", async () => {
    let text = "";
    for await (const part of await client.completions.create({ model: "stories", prompt: "Once upon a time", max_tokens: 8, temperature: 0, stream: true }))
      text += part.choices[0].text;
    assert.equal(text, ", there was a little girl");
  });
  let whole;
  await check("openai: chat", async () => {
    const answer = await client.chat.completions.create({ model: "stories", messages, max_tokens: 8, temperature: 0 });
    whole = answer.choices[0].message.content;
    assert.equal(answer.choices[0].message.role, "assistant");
    assert.ok(whole.length > 0);
    assert.equal(answer.choices[0].finish_reason, "length");
  });
  await check("openai: a chat stream says what the whole answer says", async () => {
    let text = "", usage;
    for await (const part of await client.chat.completions.create({ model: "stories", messages, max_tokens: 8, temperature: 0,
      stream: true, stream_options: { include_usage: true } })) {
      text += part.choices[0]?.delta.content ?? "";
      usage = part.usage ?? usage;
    }
    assert.equal(text, whole);
    assert.equal(usage.completion_tokens, 8);
  });
  await check("openai: tools may be declared", async () => {
    const answer = await client.chat.completions.create({ model: "stories", messages, tools, max_tokens: 4, temperature: 0 });
    assert.equal(answer.choices.length, 1);
  });
  await check("openai: responses", async () => {
    const answer = await client.responses.create({ model: "stories", input: "Tell me a story", max_output_tokens: 8, temperature: 0 });
    assert.equal(answer.status, "completed");
    assert.equal(answer.output_text, whole);
  });
  await check("openai: a responses stream", async () => {
    let text = "", last;
    for await (const event of await client.responses.create({ model: "stories", input: "Tell me a story", max_output_tokens: 8, temperature: 0, stream: true })) {
      if (event.type === "response.output_text.delta") text += event.delta;
      last = event.type;
    }
    assert.equal(text, whole);
    assert.equal(last, "response.completed");
  });
  await check("openai: embeddings are refused", async () => {
    await assert.rejects(client.embeddings.create({ model: "stories", input: "a" }), { status: 501 });
  });
  await check("openai: an error is typed", async () => {
    await assert.rejects(client.chat.completions.create({ model: "stories", messages: "x" }), { status: 400, type: "invalid_request_error" });
  });
  await check("openai: a wrong key is refused", async () => {
    const stranger = new OpenAI({ baseURL: `${url}/v1`, apiKey: "wrong", maxRetries: 0 });
    await assert.rejects(stranger.completions.create({ model: "stories", prompt: "a" }), { status: 401 });
  });
}

async function anthropicChecks(url) {
  const client = new Anthropic({ baseURL: url, apiKey: "secret", maxRetries: 0 });
  const request = { model: "stories", messages, max_tokens: 8, temperature: 0 };
  let whole;
  await check("anthropic: messages", async () => {
    const answer = await client.messages.create(request);
    whole = answer.content[0].text;
    assert.equal(answer.stop_reason, "max_tokens");
    assert.equal(answer.usage.output_tokens, 8);
  });
  await check("anthropic: a stream, event by event", async () => {
    const stream = client.messages.stream(request);
    const kinds = [];
    for await (const event of stream) kinds.push(event.type);
    assert.equal(kinds[0], "message_start");
    assert.equal(kinds[1], "content_block_start");
    assert.deepEqual(kinds.slice(-3), ["content_block_stop", "message_delta", "message_stop"]);
    assert.equal((await stream.finalMessage()).content[0].text, whole);
  });
  await check("anthropic: tokens are counted", async () => {
    const counted = await client.messages.countTokens({ model: "stories", messages });
    assert.ok(counted.input_tokens > 10);
  });
}

function curl(...args) {
  return JSON.parse(execFileSync("curl", ["-s", ...args], { encoding: "utf8" }));
}

try {
  const url = await start("--port", "0", "--api-key", "secret");
  await openaiChecks(url);
  await anthropicChecks(url);
  await check("curl: a Unix socket", async () => {
    const socket = join(scratch, "x.sock");
    await start("--host", socket);
    assert.deepEqual(curl("--unix-socket", socket, "http://localhost/health"), { status: "ok" });
  });
  await check("curl: TLS", async () => {
    const key = join(scratch, "key.pem"), cert = join(scratch, "cert.pem");
    execFileSync("openssl", ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
      "-subj", "/CN=localhost", "-keyout", key, "-out", cert], { stdio: "ignore" });
    const secure = await start("--port", "0", "--ssl-key-file", key, "--ssl-cert-file", cert);
    assert.ok(secure.startsWith("https://"));
    const answer = curl("-k", `${secure}/completion`, "-d", JSON.stringify({ prompt: "Once upon a time", n_predict: 3, temperature: 0 }));
    assert.equal(answer.content, ", there was");
    assert.throws(() => curl("-k", "--tls-max", "1.1", `${secure}/health`));
  });
} finally {
  for (const server of running) server.kill("SIGTERM");
  rmSync(scratch, { recursive: true, force: true });
}
process.exit(failures ? 1 : 0);
