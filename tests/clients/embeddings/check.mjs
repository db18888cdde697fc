// check.mjs SERVER MODELS SEARCH - what embedding clients that people use get from a running
// server.
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import assert from "node:assert/strict";
import OpenAI from "openai";
import { OpenAIEmbeddings } from "@langchain/openai";
import { startServer } from "./server.mjs";

const [program, models, search] = process.argv.slice(2);
const running = [];
let failures = 0;

async function start(model, ...extra) {
  const server = await startServer(program, ["-m", join(models, model), "--port", "0", "-c", "1024", "-np", "2", "--alias", "tiny",
    ...extra]);
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

const texts = ["The cat sat on the mat.", "Hello world", "naïve café 中文"];

function near(a, b, within) {
  assert.equal(a.length, b.length);
  a.forEach((x, i) => assert.ok(Math.abs(x - b[i]) < within, `component ${i}: ${x} and ${b[i]}`));
}

async function openaiChecks(url) {
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0 });
  let floats;
  await check("openai: floats", async () => {
    const answer = await client.embeddings.create({ model: "tiny", input: texts, encoding_format: "float" });
    floats = answer.data.map((one) => one.embedding);
    assert.equal(answer.model, "tiny");
    assert.deepEqual(answer.data.map((one) => one.index), [0, 1, 2]);
    assert.ok(answer.usage.prompt_tokens > 10 && answer.usage.total_tokens === answer.usage.prompt_tokens);
    for (const v of floats) assert.ok(Math.abs(v.reduce((sum, x) => sum + x * x, 0) - 1) < 1e-5);
  });
  await check("openai: base64, which it asks for by itself and decodes", async () => {
    const answer = await client.embeddings.create({ model: "tiny", input: texts });
    answer.data.forEach((one, i) => near(one.embedding, floats[i], 1e-6));
  });
  await check("openai: base64 as it comes", async () => {
    const answer = await client.embeddings.create({ model: "tiny", input: texts[0], encoding_format: "base64" });
    const bytes = Buffer.from(answer.data[0].embedding, "base64");
    near(Array.from({ length: bytes.length / 4 }, (_, i) => bytes.readFloatLE(4 * i)), floats[0], 1e-6);
  });
  await check("openai: tokens", async () => {
    const answer = await client.embeddings.create({ model: "tiny", input: [101, 7592, 2088, 102] });
    near(answer.data[0].embedding, floats[1], 1e-5);
  });
  await check("openai: errors are typed", async () => {
    await assert.rejects(client.embeddings.create({ model: "tiny", input: [] }), { status: 400, type: "invalid_request_error" });
    await assert.rejects(client.embeddings.create({ model: "tiny", input: "a", dimensions: 8 }), { status: 400 });
    await assert.rejects(client.completions.create({ model: "tiny", prompt: "a" }), { status: 501 });
  });
  await check("langchain: documents and a query", async () => {
    const embeddings = new OpenAIEmbeddings({ model: "tiny", apiKey: "none", configuration: { baseURL: `${url}/v1` } });
    (await embeddings.embedDocuments(texts)).forEach((v, i) => near(v, floats[i], 1e-6));
    near(await embeddings.embedQuery(texts[2]), floats[2], 1e-6);
  });
  await check("langchain: more documents than one request holds", async () => {
    const embeddings = new OpenAIEmbeddings({ model: "tiny", apiKey: "none", batchSize: 64, configuration: { baseURL: `${url}/v1` } });
    const many = Array.from({ length: 300 }, (_, i) => texts[i % 3]);
    (await embeddings.embedDocuments(many)).forEach((v, i) => near(v, floats[i % 3], 1e-5));
  });
  await check("examples/search: a sentence finds itself", async () => {
    const lines = execFileSync("node", [search, url, "A violin has four strings."], { encoding: "utf8" }).trim().split("\n");
    assert.equal(lines.length, 10);
    assert.equal(lines[0], "1.000 A violin has four strings.");
    const scores = lines.map((line) => Number(line.split(" ")[0]));
    assert.deepEqual(scores, [...scores].sort((a, b) => b - a));
  });
}

try {
  await openaiChecks(await start("bert.gguf", "--embeddings", "--pooling", "mean"));
  await check("fetch: a rerank server in Jina's form", async () => {
    const url = await start("bert-rerank.gguf", "--reranking");
    const answer = await fetch(`${url}/v1/rerank`, { method: "POST", body: JSON.stringify({ model: "tiny", query: "a", documents: ["c", "b"], top_n: 1 }) });
    const { results } = await answer.json();
    assert.equal(results.length, 1);
    assert.equal(results[0].index, 1);
  });
} finally {
  for (const server of running) server.kill("SIGTERM");
}
process.exit(failures ? 1 : 0);
