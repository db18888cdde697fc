// search.mjs URL QUESTION - ten sentences, the nearest to the question first.
//
//     ./run -m bge-small-en-v1.5.gguf --embeddings --port 8080
//     node examples/search/search.mjs http://127.0.0.1:8080 "Where do penguins live?"
//
// The sentences become vectors once, the question each time; the server scales vectors to
// length one, so that their dot product says how near they are.
const [url, question] = process.argv.slice(2);
if (!question) {
  console.error("usage: node search.mjs URL QUESTION");
  process.exit(2);
}

const sentences = [
  "Penguins live on the southern half of the earth.",
  "Bread rises because yeast makes gas.",
  "The moon takes about four weeks around the earth.",
  "A violin has four strings.",
  "Rust is iron that has met water and air.",
  "Bees dance to say where the flowers are.",
  "Glaciers are rivers of ice.",
  "Salt lowers the point at which water freezes.",
  "Cats see well in the dark.",
  "The alphabet came to Greece by sea.",
];

async function embed(texts) {
  const answer = await fetch(`${url}/v1/embeddings`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ input: texts }),
  });
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.error.message);
  return body.data.map((one) => one.embedding);
}

const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);
const vectors = await embed(sentences);
const [asked] = await embed([question]);
sentences
  .map((sentence, i) => ({ sentence, near: dot(asked, vectors[i]) }))
  .sort((a, b) => b.near - a.near)
  .forEach(({ sentence, near }) => console.log(near.toFixed(3), sentence));
