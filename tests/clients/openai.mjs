// openai-node. Each exported function is a scenario: it gets the root URL and returns plain data.

import { createHash } from "node:crypto";
import OpenAI, { toFile } from "openai";
import { zodResponseFormat, zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";
import { all, cutStream, errorStatuses, failure, leftStream } from "./stainless.mjs";

const messages = [{ role: "user", content: "Name three fruits." }];
const image = { type: "image_url", image_url: { url: "data:image/png;base64,iVBORw0KGgo=" } };
const weather = {
  name: "weather",
  description: "The weather in a city.",
  parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
};
const Fruits = z.object({ fruits: z.array(z.string()), count: z.number() });

const client = (url, options) => new OpenAI({ baseURL: `${url}/v1`, apiKey: "sk-none", maxRetries: 0, ...options });
const chat = (url, model, more) => client(url).chat.completions.create({ model, messages, ...more });
const digest = (bytes) => createHash("sha256").update(bytes).digest("hex");

export const chatAnswer = (url) => chat(url, "answer");
export const chatChoicesAndLogprobs = (url) => chat(url, "answer", { n: 3, logprobs: true, top_logprobs: 1 });
export const chatTools = (url) => chat(url, "tools", { tools: [{ type: "function", function: weather }] });
export const chatStructuredRefusal = (url) => chat(url, "refusal-field");
export const chatImage = (url) =>
  chat(url, "answer", { messages: [{ role: "user", content: [{ type: "text", text: "What is it?" }, image] }] });
export const chatParsed = (url) =>
  client(url).chat.completions.parse({
    model: "json",
    messages,
    response_format: zodResponseFormat(Fruits, "fruits"),
  });

export const streamAnswer = (url) =>
  all(chat(url, "answer", { stream: true, stream_options: { include_usage: true } }));
export const streamChoices = (url) => all(chat(url, "answer", { stream: true, n: 3, logprobs: true }));
export const streamTools = (url) =>
  all(chat(url, "tools", { stream: true, tools: [{ type: "function", function: weather }] }));

export async function helperAnswer(url) {
  const seen = [];
  const stream = client(url).chat.completions.stream({ model: "answer", messages });
  stream.on("content", (delta) => seen.push(delta)).on("refusal.delta", (event) => seen.push(event));
  return [await stream.finalChatCompletion(), seen];
}

export async function helperParsed(url) {
  const response_format = zodResponseFormat(Fruits, "fruits");
  return client(url).chat.completions.stream({ model: "json", messages, response_format }).finalChatCompletion();
}

async function toolRunner(url, stream) {
  const calls = [];
  const runner = client(url).chat.completions.runTools({
    model: "tools",
    messages,
    stream,
    tools: [
      {
        type: "function",
        function: {
          ...weather,
          parse: JSON.parse,
          function: (input) => {
            calls.push(input);
            return "22 degrees";
          },
        },
      },
    ],
  });
  return [await runner.finalContent(), calls, runner.messages];
}

export const runTools = (url) => toolRunner(url, false);
export const runToolsStreaming = (url) => toolRunner(url, true);

export const completions = (url) => client(url).completions.create({ model: "answer", prompt: "Name fruits.", n: 2 });
export const completionsStream = (url) =>
  all(client(url).completions.create({ model: "answer", prompt: "Name fruits.", stream: true }));

export const responses = (url) => client(url).responses.create({ model: "answer", input: "Name fruits." });
export const responsesRefusal = (url) => client(url).responses.create({ model: "refusal-field", input: "Name fruits." });
export const responsesParsed = (url) =>
  client(url).responses.parse({
    model: "json",
    input: "Name fruits.",
    text: { format: zodTextFormat(Fruits, "fruits") },
  });
export const responsesStream = (url) =>
  all(client(url).responses.create({ model: "answer", input: "Name fruits.", stream: true }));
export const responsesStreamTools = (url) =>
  all(
    client(url).responses.create({
      model: "tools",
      input: "Weather?",
      stream: true,
      tools: [{ type: "function", strict: false, ...weather }],
    }),
  );
export const responsesHelper = (url) =>
  client(url).responses.stream({ model: "answer", input: "Name fruits." }).finalResponse();

export const embeddings = (url) => client(url).embeddings.create({ model: "embed", input: ["pear", "plum"] });
export const models = (url) => all(client(url).models.list());

export async function uploads(url) {
  const bytes = Buffer.alloc(300_000, "\x00\xff\r\n--");
  const file = await client(url).files.create({ file: await toFile(bytes, "notes.jsonl"), purpose: "batch" });
  const written = await client(url).audio.transcriptions.create({ model: "w", file: await toFile(bytes, "a.wav") });
  return [file, written, file.id === `file-${digest(bytes)}`, written.text === digest(bytes)];
}

export async function speech(url) {
  const answer = await client(url).audio.speech.create({ model: "tts", voice: "alloy", input: "Pears." });
  return digest(Buffer.from(await answer.arrayBuffer()));
}

export const errors = (url) => errorStatuses((model, more) => chat(url, model, more));

export const errorInsideAStream = (url) => failure(all(chat(url, "error-in-stream", { stream: true })));

export const streamThatBreaksOff = (url) => cutStream((model, more) => chat(url, model, more));

export async function retries(url) {
  const patient = client(url, { maxRetries: 2 });
  const call = (model) => patient.chat.completions.create({ model, messages });
  return [await call("flaky-429"), await call("flaky-500"), await failure(call("error-429:always"))];
}

export const timeout = (url) =>
  failure(client(url, { timeout: 500 }).chat.completions.create({ model: "stall", messages }));

export const leaving = (url) => leftStream((model, more) => chat(url, model, more));

// Where the verdict is.

export async function verdictOfJson(url) {
  const call = client(url).chat.completions.create({ model: "refusal", messages });
  const { data, response } = await call.withResponse();
  return [data.choices[0].message.content, response.headers.get("x-refusal-verdict")];
}

export async function verdictOfStream(url) {
  const { data, response } = await client(url)
    .chat.completions.create({ model: "refusal", messages, stream: true })
    .withResponse();
  const chunks = await all(data);
  return [response.headers.get("x-refusal-verdict"), chunks.at(-1).refusal_verdict?.label];
}

export async function verdictOfResponses(url) {
  const found = [];
  const stream = await client(url).responses.create({ model: "refusal", input: "Name fruits.", stream: true });
  for await (const event of stream) if (event.refusal_verdict) found.push(event.type, event.refusal_verdict.label);
  return found;
}

export async function verdictInHelper(url) {
  let label = null;
  const stream = client(url).chat.completions.stream({ model: "refusal", messages });
  stream.on("chunk", (chunk) => (label = chunk.refusal_verdict?.label ?? label));
  const whole = await stream.finalChatCompletion();
  return [label, whole.refusal_verdict?.label];
}
