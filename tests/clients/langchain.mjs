// LangChain in JavaScript, with its OpenAI package.

import { ChatOpenAI, OpenAIEmbeddings } from "@langchain/openai";
import { tool } from "@langchain/core/tools";
import { z } from "zod";

const prompt = "Name three fruits.";
const weather = tool(() => "22 degrees", { name: "weather", schema: z.object({ city: z.string() }) });

const llm = (url, model, more) =>
  new ChatOpenAI({
    model,
    apiKey: "sk-none",
    maxRetries: 0,
    configuration: { baseURL: `${url}/v1` },
    ...more,
  });

// What a caller reads of a message; its id may be one that LangChain makes up.
const told = ({ content, tool_calls, response_metadata, usage_metadata, additional_kwargs }) => ({
  content,
  tool_calls,
  response_metadata,
  usage_metadata,
  additional_kwargs,
});

async function streamed(model) {
  const found = [];
  for await (const chunk of await model.stream(prompt)) found.push(told(chunk));
  return found;
}

async function failure(call) {
  try {
    await call;
  } catch ({ name, message, status }) {
    return { name, message, status };
  }
  throw new Error("no error came");
}

export const invoke = async (url) => told(await llm(url, "answer").invoke(prompt));
export const invokeResponses = async (url) => told(await llm(url, "answer", { useResponsesApi: true }).invoke(prompt));
export const tools = async (url) => told(await llm(url, "tools").bindTools([weather]).invoke(prompt));
export const choices = async (url) => {
  const { generations } = await llm(url, "answer", { n: 3 }).generate([[prompt]]);
  return generations.map((found) => found.map((one) => one.text));
};
export const logprobs = async (url) => told(await llm(url, "answer", { logprobs: true }).invoke(prompt));
export const structured = (url) =>
  llm(url, "json")
    .withStructuredOutput(z.object({ fruits: z.array(z.string()), count: z.number() }), { method: "jsonSchema" })
    .invoke(prompt);
export const images = async (url) => {
  const image = { type: "image_url", image_url: { url: "data:image/png;base64,iVBORw0KGgo=" } };
  return told(await llm(url, "answer").invoke([["user", [{ type: "text", text: "What is it?" }, image]]]));
};
export const stream = (url) => streamed(llm(url, "answer"));
export const streamTools = (url) => streamed(llm(url, "tools").bindTools([weather]));
export const streamResponses = (url) => streamed(llm(url, "answer", { useResponsesApi: true }));
export const embeddings = (url) =>
  new OpenAIEmbeddings({ model: "embed", apiKey: "sk-none", configuration: { baseURL: `${url}/v1` } }).embedQuery("pear");

export async function errors(url) {
  const found = [];
  for (const status of [400, 401, 429, 500]) {
    found.push(await failure(llm(url, `error-${status}`).invoke(prompt)));
    found.push(await failure(streamed(llm(url, `error-${status}`))));
  }
  return found;
}

export const errorInsideAStream = (url) => failure(streamed(llm(url, "error-in-stream")));
export const streamThatBreaksOff = async (url) => (await failure(streamed(llm(url, "cut")))).name;

export async function retries(url) {
  const call = async (model) => told(await llm(url, model, { maxRetries: 2 }).invoke(prompt));
  return [await call("flaky-429"), await call("flaky-500"), await failure(call("error-429:always"))];
}

export const timeout = async (url) => (await failure(llm(url, "stall", { timeout: 500 }).invoke(prompt))).name;

export async function leaving(url) {
  for await (const chunk of await llm(url, "endless").stream(prompt)) return told(chunk);
}

// Where the verdict is.

// Of a JSON answer it is in the headers, which LangChain shows to its `fetch` only.
export async function verdictOfJson(url) {
  const found = [];
  const fetch = async (...request) => {
    const response = await globalThis.fetch(...request);
    found.push(response.headers.get("x-refusal-verdict"));
    return response;
  };
  await llm(url, "refusal", { configuration: { baseURL: `${url}/v1`, fetch } }).invoke(prompt);
  return found;
}

export async function verdictOfStream(url) {
  const found = [];
  for await (const chunk of await llm(url, "refusal", { __includeRawResponse: true }).stream(prompt)) {
    const raw = chunk.additional_kwargs.__raw_response;
    if (raw?.refusal_verdict) found.push(raw.refusal_verdict.label);
  }
  return found;
}
