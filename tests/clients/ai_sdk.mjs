// The AI SDK with its two OpenAI providers: one speaks Responses and chat completions, the other chat completions only.

import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { APICallError, embedMany, generateText, Output, RetryError, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

const prompt = "Name three fruits.";
const openai = (url) => createOpenAI({ baseURL: `${url}/v1`, apiKey: "sk-none" });
const compatible = (url) => createOpenAICompatible({ name: "vendor", baseURL: `${url}/v1`, apiKey: "sk-none" });

const chat = (url, model) => openai(url).chat(model);
const responses = (url, model) => openai(url).responses(model);
const plain = (url, model) => compatible(url).chatModel(model);
const quiet = { maxRetries: 0, onError: () => {} };

const weather = tool({
  description: "The weather in a city.",
  inputSchema: z.object({ city: z.string() }),
  execute: async () => "22 degrees",
});

// What a caller reads of a result, without the identifiers that the SDK makes up.
async function told(result) {
  const calls = (await result.steps).flatMap((step) => step.toolCalls.map(({ toolName, input }) => [toolName, input]));
  const { text, finishReason, usage, warnings } = await settled(result, "text", "finishReason", "usage", "warnings");
  return { text, finishReason, usage, warnings, calls };
}

async function settled(object, ...names) {
  return Object.fromEntries(await Promise.all(names.map(async (name) => [name, await object[name]])));
}

const generated = async (model, more) => told(await generateText({ model, prompt, ...quiet, ...more }));

async function streamed(model, more) {
  const result = streamText({ model, prompt, ...quiet, ...more });
  const kinds = [];
  for await (const part of result.fullStream) kinds.push(part.type === "text-delta" ? part.text : part.type);
  return [kinds, await told(result)];
}

async function failure(call) {
  try {
    await call;
  } catch (error) {
    const last = RetryError.isInstance(error) ? error.lastError : error;
    const { name, message, statusCode, isRetryable, responseBody } = last;
    return { name, message, statusCode, isRetryable, responseBody, api: APICallError.isInstance(last) };
  }
  throw new Error("no error came");
}

const tools = { tools: { weather }, stopWhen: stepCountIs(3) };
const output = Output.object({ schema: z.object({ fruits: z.array(z.string()), count: z.number() }) });

export const generateWithChat = (url) => generated(chat(url, "answer"));
export const generateWithResponses = (url) => generated(responses(url, "answer"));
export const generateWithCompatible = (url) => generated(plain(url, "answer"));
export const streamWithChat = (url) => streamed(chat(url, "answer"));
export const streamWithResponses = (url) => streamed(responses(url, "answer"));
export const streamWithCompatible = (url) => streamed(plain(url, "answer"));

export const toolsWithChat = (url) => generated(chat(url, "tools"), tools);
export const toolsWithCompatible = (url) => generated(plain(url, "tools"), tools);
export const toolsStreamedWithChat = (url) => streamed(chat(url, "tools"), tools);
export const toolsStreamedWithCompatible = (url) => streamed(plain(url, "tools"), tools);

export async function objects(url) {
  const found = [];
  for (const model of [chat(url, "json"), responses(url, "json")]) {
    const { output: object } = await generateText({ model, prompt, output, ...quiet });
    found.push(object);
  }
  return found;
}

export const images = (url) => {
  const parts = [
    { type: "text", text: "What is on it?" },
    { type: "image", image: Buffer.from("iVBORw0KGgo=", "base64") },
  ];
  return generated(chat(url, "answer"), { prompt: undefined, messages: [{ role: "user", content: parts }] });
};

export const logprobs = async (url) => {
  const providerOptions = { openai: { logprobs: 1 } };
  const result = await generateText({ model: chat(url, "answer"), prompt, providerOptions, ...quiet });
  return result.providerMetadata.openai.logprobs;
};

export const embeddings = async (url) => {
  const { embeddings: rows } = await embedMany({ model: openai(url).embedding("embed"), values: ["pear"], ...quiet });
  return rows;
};

export async function errors(url) {
  const found = [];
  for (const status of [400, 401, 429, 500]) {
    found.push(await failure(generated(chat(url, `error-${status}`))));
    found.push(await failure(streamText({ model: chat(url, `error-${status}`), prompt, ...quiet }).text));
    found.push(await failure(generated(plain(url, `error-${status}`))));
  }
  return found;
}

export async function errorInsideAStream(url) {
  const errors = [];
  const onError = ({ error }) => errors.push(error.message ?? error);
  for (const model of [chat(url, "error-in-stream"), plain(url, "error-in-stream")]) {
    const parts = [];
    for await (const part of streamText({ model, prompt, ...quiet, onError }).fullStream) parts.push(part.type);
    errors.push(parts);
  }
  return errors;
}

export async function streamThatBreaksOff(url) {
  const parts = [];
  const read = async () => {
    const result = streamText({ model: chat(url, "cut"), prompt, ...quiet });
    for await (const part of result.fullStream) parts.push(part.type);
  };
  return [(await failure(read())).name, parts];
}

export async function retries(url) {
  const call = (model) => generated(chat(url, model), { maxRetries: 2 });
  return [await call("flaky-429"), await call("flaky-500"), await failure(call("error-429:always"))];
}

export const timeout = async (url) => {
  const error = await failure(generated(chat(url, "stall"), { abortSignal: AbortSignal.timeout(500) }));
  return error.name;
};

export async function leaving(url) {
  const leave = new AbortController();
  const result = streamText({ model: chat(url, "endless"), prompt, abortSignal: leave.signal, ...quiet });
  for await (const text of result.textStream) {
    leave.abort();
    return text;
  }
}

// Where the verdict is.

export async function verdictOfJson(url) {
  const found = [];
  for (const model of [chat(url, "refusal"), responses(url, "refusal"), plain(url, "refusal")]) {
    const { response } = await generateText({ model, prompt, ...quiet });
    found.push(response.headers["x-refusal-verdict"]);
  }
  return found;
}

export async function verdictOfStream(url) {
  const found = [];
  for (const model of [chat(url, "refusal"), responses(url, "refusal"), plain(url, "refusal")]) {
    const result = streamText({ model, prompt, includeRawChunks: true, ...quiet });
    for await (const part of result.fullStream)
      if (part.type === "raw" && part.rawValue.refusal_verdict) found.push(part.rawValue.refusal_verdict.label);
    found.push((await result.response).headers["x-refusal-verdict"]);
  }
  return found;
}
