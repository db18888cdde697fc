// loop.mjs SERVER MODEL - a full tool loop through npm's openai: a request, the
// model's call, the tool's result, the final answer; streamed and not.
import assert from "node:assert/strict";
import OpenAI from "openai";
import { startServer } from "./server.mjs";

const [program, model] = process.argv.slice(2);
let failures = 0;

const tools = [
  { name: "get_weather", description: "Get the weather in a city", fields: { city: { type: "string" } } },
  { name: "add", description: "Add two numbers", fields: { a: { type: "number" }, b: { type: "number" } } },
].map(({ name, description, fields }) => ({ type: "function", function: { name, description,
  parameters: { type: "object", properties: fields, required: Object.keys(fields) } } }));

// What the tools do.
const work = {
  get_weather: ({ city }) => `windy, ${10 + city.length} degrees`,
  add: ({ a, b }) => JSON.stringify({ result: a + b }),
};

const questions = [
  { text: "What is the weather in Tokyo?", call: "get_weather", arguments: { city: "Tokyo" }, answer: [/Tokyo/, /windy/, /\b15\b/] },
  { text: "Please add 17 and 25.", call: "add", arguments: { a: 17, b: 25 }, answer: [/\b42\b/] },
];

const ways = {
  whole: async (client, body) => (await client.chat.completions.create(body)).choices[0],
  // The client puts the pieces together itself.
  streamed: async (client, body) => (await client.chat.completions.stream(body).finalChatCompletion()).choices[0],
};

async function loop(client, question, ask) {
  const messages = [{ role: "user", content: question.text }];
  const body = { model: "tale", messages, tools, temperature: 0 };
  const first = await ask(client, body);
  assert.equal(first.finish_reason, "tool_calls");
  assert.equal(first.message.tool_calls.length, 1);
  const [call] = first.message.tool_calls;
  assert.equal(call.function.name, question.call);
  const input = JSON.parse(call.function.arguments);
  assert.deepEqual(input, question.arguments);
  messages.push(first.message);
  messages.push({ role: "tool", tool_call_id: call.id, content: work[call.function.name](input) });
  const last = await ask(client, body);
  assert.equal(last.finish_reason, "stop");
  for (const part of question.answer) assert.match(last.message.content, part);
  return last.message.content;
}

const server = await startServer(program, ["-m", model, "--port", "0"]);
try {
  const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: "none", maxRetries: 0 });
  for (const [way, ask] of Object.entries(ways))
    for (const question of questions) {
      const name = `openai: a tool loop, ${way}: ${question.text}`;
      try {
        console.log(`ok     ${name} ${await loop(client, question, ask)}`);
      } catch (error) {
        failures++;
        console.log(`FAILED ${name}: ${error.stack}`);
      }
    }
} finally {
  server.process.kill();
}
process.exit(failures ? 1 : 0);
