// Anthropic's SDK in Node.

import Anthropic from "@anthropic-ai/sdk";
import { all, cutStream, errorStatuses, failure, leftStream } from "./stainless.mjs";

const messages = [{ role: "user", content: "Name three fruits." }];
const weather = {
  name: "weather",
  description: "The weather in a city.",
  input_schema: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
};
const image = { type: "image", source: { type: "base64", media_type: "image/png", data: "iVBORw0KGgo=" } };

const client = (url, options) => new Anthropic({ baseURL: url, apiKey: "sk-none", maxRetries: 0, ...options });
const ask = (url, model, more) => client(url).messages.create({ model, max_tokens: 99, messages, ...more });

export const answer = (url) => ask(url, "answer");
export const tools = (url) => ask(url, "tools", { tools: [weather] });
export const images = (url) =>
  ask(url, "answer", { messages: [{ role: "user", content: [{ type: "text", text: "What is it?" }, image] }] });
export const stream = (url) => all(ask(url, "answer", { stream: true }));
export const streamTools = (url) => all(ask(url, "tools", { stream: true, tools: [weather] }));

export async function helper(url) {
  const seen = [];
  const events = client(url).messages.stream({ model: "answer", max_tokens: 99, messages });
  events.on("text", (text) => seen.push(text));
  return [await events.finalMessage(), seen];
}

export const helperTools = (url) =>
  client(url).messages.stream({ model: "tools", max_tokens: 99, messages, tools: [weather] }).finalMessage();

export const errors = (url) => errorStatuses((model, more) => ask(url, model, more));

export const errorInsideAStream = (url) => failure(all(ask(url, "error-in-stream", { stream: true })));

export const streamThatBreaksOff = (url) => cutStream((model, more) => ask(url, model, more));

export async function retries(url) {
  const call = (model) => client(url, { maxRetries: 2 }).messages.create({ model, max_tokens: 99, messages });
  return [await call("flaky-429"), await call("flaky-500"), await failure(call("error-429:always"))];
}

export const timeout = (url) =>
  failure(client(url, { timeout: 500 }).messages.create({ model: "stall", max_tokens: 99, messages }));

export const leaving = (url) => leftStream((model, more) => ask(url, model, more));

// Where the verdict is.

export async function verdictOfJson(url) {
  const { data, response } = await ask(url, "refusal").withResponse();
  return [data.stop_reason, response.headers.get("x-refusal-verdict")];
}

export async function verdictOfStream(url) {
  const { data, response } = await ask(url, "refusal", { stream: true }).withResponse();
  const found = [response.headers.get("x-refusal-verdict")];
  for await (const event of data) if (event.refusal_verdict) found.push(event.type, event.refusal_verdict.label);
  return found;
}

export async function verdictInHelper(url) {
  const found = [];
  const events = client(url).messages.stream({ model: "refusal", max_tokens: 99, messages });
  events.on("streamEvent", (event) => event.refusal_verdict && found.push(event.refusal_verdict.label));
  await events.done();
  return found;
}
