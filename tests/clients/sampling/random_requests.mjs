// random_requests.mjs SERVER SHARED RECORDING N - thousands of requests with
// random sampling settings: each is answered, or refused with a reason; after
// them a plain request still gets the recorded answer.
import { spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { createServer } from 'node:net';

const [server, shared, recording, count] = process.argv.slice(2);
if (!existsSync(`${shared}/models`)) {
  console.log(`SKIPPED: the reference data (${shared}) is absent`);
  process.exit(process.env.CI ? 1 : 77);
}

let state = 0x2545f491;
const random = () => {
  state ^= state << 13;
  state ^= state >>> 17;
  state ^= state << 5;
  return (state >>> 0) / 4294967296;
};
const pick = (list) => list[Math.floor(random() * list.length)];

const odd = [0, -0, 1, -1, 0.5, 2, 40, 1e-40, 1e-9, 1e9, 1e30, -1e30, 3.4e38, -3.4e38, 1e300, -1e300,
  2147483647, 2147483648, -2147483648, 4294967295, 9007199254740993, 0.99999];
const number = () => (random() < 0.5 ? random() * 2 : pick(odd));
const wrong = () => pick([null, true, 'x', '', [], {}, [1], '1e999']);
const numbers = ['top_k', 'top_p', 'min_p', 'top_n_sigma', 'xtc_probability', 'xtc_threshold', 'typical_p',
  'temperature', 'dynatemp_range', 'dynatemp_exponent', 'repeat_last_n', 'repeat_penalty', 'frequency_penalty',
  'presence_penalty', 'dry_multiplier', 'dry_base', 'dry_allowed_length', 'dry_penalty_last_n', 'mirostat',
  'mirostat_tau', 'mirostat_eta', 'adaptive_target', 'adaptive_decay', 'seed', 'n_probs', 'min_keep'];
const names = ['penalties', 'dry', 'top_n_sigma', 'top_k', 'typ_p', 'top_p', 'min_p', 'xtc', 'temperature',
  'infill', 'adaptive_p', 'nucleus', 'nonsense'];
const grammars = ['root ::= "a"+', 'root ::= (', 'root ::= root "a" | "b"', 'root ::= "a"{3,1}', 'root ::= [a-z ]*',
  'root ::= ("a"? "b"?)*', 'root ::= <[5]>', 'root ::= "\u65e5"', 'root ::= ((("a"{9}){9}){9}){9}', 5];

function request() {
  const body = { prompt: pick(['Once upon a time', 'a', '', 'The end']), n_predict: 1 + Math.floor(random() * 3) };
  for (const name of numbers) if (random() < 0.2) body[name] = random() < 0.05 ? wrong() : number();
  if (random() < 0.3) body.samplers = Array.from({ length: Math.floor(random() * 12) }, () => pick(names));
  else if (random() < 0.1) body.samplers = pick(['edkypmxt', 'ia', '??', 5]);
  if (random() < 0.2) body.logit_bias = pick([[[1, false]], [[5, 1e30], ['a', -1e30]], { 7: false, ' the': 3 }, [[-1, 1], [99999999, 2]], 'x', [[1]]]);
  if (random() < 0.1) body.ignore_eos = pick([true, false, 1]);
  if (random() < 0.1) body.dry_sequence_breakers = pick([['\n'], [], ['', 'a'], 'x', [5], ['x'.repeat(500)]]);
  if (random() < 0.2) body.grammar = pick(grammars);
  else if (random() < 0.1) body.json_schema = pick([{}, { enum: [1, 2] }, { type: 'x' }, 5, { $ref: '#' }, { not: {} }]);
  if (random() < 0.1) body.post_sampling_probs = true;
  if (random() < 0.1) body.stream = true;
  if (random() < 0.05) body.grammar_lazy = true;
  return body;
}

const freePort = () => new Promise((resolve) => {
  const probe = createServer().listen(0, '127.0.0.1', () => {
    const { port } = probe.address();
    probe.close(() => resolve(port));
  });
});

const scenario = JSON.parse(readFileSync(recording, 'utf8')).find((s) => s.name === 'completion-shape');
const plain = scenario.steps[0];
const port = await freePort();
const child = spawn(server, ['-m', `${shared}/models/stories260k/stories260K.gguf`, '-c', '512', '-np', '2',
  '--port', String(port)], { stdio: 'ignore' });
let exited = false;
child.on('exit', () => (exited = true));

const post = async (body) => {
  const response = await fetch(`http://127.0.0.1:${port}/completion`, {
    method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body),
    signal: AbortSignal.timeout(30000),
  });
  return { status: response.status, text: await response.text() };
};

const failures = [];
const tally = {};
try {
  for (let i = 0; i < 200 && !exited; i++) {
    const ready = await fetch(`http://127.0.0.1:${port}/health`).then((r) => r.ok, () => false);
    if (ready) break;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  const one = async () => {
    const body = request();
    try {
      const { status, text } = await post(body);
      tally[status] = (tally[status] ?? 0) + 1;
      if (status !== 200 && !(status === 400 && JSON.parse(text).error?.message))
        failures.push(`${status} ${text.slice(0, 200)} for ${JSON.stringify(body)}`);
    } catch (e) {
      failures.push(`${e} for ${JSON.stringify(body)}`);
    }
  };
  for (let i = 0; i < Number(count) && failures.length < 10 && !exited; i += 4)
    await Promise.all([one(), one(), one(), one()]);
  const { text } = await post(plain.request.json);
  if (JSON.parse(text).content !== plain.response.json.content)
    failures.push(`afterwards a plain request got ${text.slice(0, 300)}`);
} catch (e) {
  failures.push(String(e));
} finally {
  if (exited) failures.push('the server went away');
  child.kill();
}
for (const f of failures.slice(0, 10)) console.error(f);
console.log(`answers by status: ${JSON.stringify(tally)}, ${failures.length} failures`);
process.exit(failures.length || !tally[200] || !tally[400] ? 1 : 0);
