// Named checks, run one after the other: a line each, and their count at the end. Also what the scripts share: the
// client under test, and the looks at the node and the mock from outside.

import { createRequire } from "node:module";

// The SDK is installed outside of the repository's tracked files, where an import does not look.
const require = createRequire(process.env.CLIENT_MODULES + "/");
export const OpenAI = require("openai");

export const URL = process.env.CLIENT_URL;
export const MOCK_URL = process.env.MOCK_URL ?? "";
// Milliseconds for one call of an SDK, and until an awaited state shows.
export const TIMEOUT = 120_000;

// A client as an application has it, retries included: a node that lets an SDK repeat what can not help is seen by its
// hits. `key` is of the role `runner`; what is looked at from outside is looked at with the administrator's.
export const clientOf = (url, apiKey, more = {}) => new OpenAI({ baseURL: `${url}/v1`, apiKey, timeout: TIMEOUT, ...more });
export const client = clientOf(URL, process.env.CLIENT_KEY);

const tool = (name, description, field) => ({
  type: "function",
  function: {
    name,
    description,
    parameters: { type: "object", properties: { [field]: { type: "string" } }, required: [field] },
  },
});
export const WEATHER = tool("get_weather", "The weather of a city.", "city");
export const TIME = tool("get_time", "The time in a zone.", "tz");

const checks = [];

/** Registers a check. */
export function check(name, run) {
  checks.push({ name, run });
}

/** Runs every check; the exit code is 1 when one failed. */
export async function main() {
  let failed = 0;
  for (const { name, run } of checks) {
    try {
      await run();
      console.log("ok", name);
    } catch (error) {
      // Whatever goes wrong is this check's, and the next one runs.
      failed += 1;
      const why = String(error?.message ?? error).replace(/\s+/g, " ").slice(0, 600);
      console.log(`FAIL ${name}: ${error?.constructor?.name}: ${why}`);
    }
  }
  console.log(`${checks.length - failed} passed, ${failed} failed`);
  process.exit(failed ? 1 : 0);
}

export function holds(condition, why) {
  if (!condition) throw new Error(typeof why === "string" ? why : JSON.stringify(why));
}

export function equal(got, wanted, what = "it") {
  const [one, other] = [got, wanted].map((value) => JSON.stringify(value) ?? "undefined");
  holds(one === other, `${what} is ${one}, not ${other}`);
}

/** The error of this kind that the call rejects with; any other, or none, is a failure. */
export async function raised(kind, call) {
  let got;
  try {
    got = await call();
  } catch (error) {
    if (error instanceof kind) return error;
    throw error;
  }
  throw new Error(`no ${kind.name}, but ${JSON.stringify(got)}`);
}

export const user = (content) => ({ role: "user", content });

/** One completion, whole. */
export const ask = (model, content = "hi", more = {}) =>
  client.chat.completions.create({ model, messages: [user(content)], ...more });

/** Reads a stream to its end or to its error. */
export async function read(stream) {
  const read = { id: "", text: "", finishes: [], usages: [], calls: [], chunks: 0, error: null };
  try {
    for await (const chunk of stream) {
      read.id = chunk.id;
      read.chunks += 1;
      if (chunk.usage) read.usages.push(chunk.usage);
      for (const { delta, finish_reason } of chunk.choices) {
        read.text += delta.content ?? "";
        if (finish_reason) read.finishes.push(finish_reason);
        for (const piece of delta.tool_calls ?? []) {
          const call = (read.calls[piece.index] ??= { id: "", name: "", arguments: "" });
          call.id += piece.id ?? "";
          call.name += piece.function?.name ?? "";
          call.arguments += piece.function?.arguments ?? "";
        }
      }
    }
  } catch (error) {
    if (!(error instanceof OpenAI.APIError)) throw error;
    read.error = error;
  }
  return read;
}

/** Reads a stream that must end as a stream should: one finish reason, no error. */
export async function whole(stream) {
  const got = await read(await stream);
  holds(got.error === null, `the stream raised ${got.error}`);
  equal(got.finishes.length, 1, "the number of finish reasons");
  return got;
}

/** One completion, streamed, with usage. */
export const streamed = (model, content = "hi", more = {}) =>
  ask(model, content, { stream: true, stream_options: { include_usage: true }, ...more });

/** GET, as JSON; lines of JSON as a list. */
export async function get(path, base = URL) {
  const headers = { authorization: `Bearer ${process.env.CLIENT_ADMIN_KEY}` };
  const answer = await fetch(base + path, { headers, signal: AbortSignal.timeout(TIMEOUT) });
  const text = await answer.text();
  holds(answer.ok, `GET ${path}: ${answer.status} ${text}`);
  return path.endsWith("/journal") ? text.trim().split("\n").map((line) => JSON.parse(line)) : JSON.parse(text);
}

/** A run's id from the id of its completion or chunk. */
export const runOf = ({ id }) => id.replace(/^chatcmpl-/, "");

/** Looks until something shows. */
export async function awaited(what, look) {
  const deadline = Date.now() + TIMEOUT;
  while (Date.now() < deadline) {
    const found = await look();
    if (found) return found;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error(`waited ${TIMEOUT} ms and never: ${what}`);
}

/** When the mock was asked for a model, in milliseconds since its start. */
export async function hits(model) {
  const stats = Object.entries(await get("/__stats", MOCK_URL));
  return stats.filter(([key]) => key.split(" ")[0] === model).flatMap(([, seen]) => seen.t);
}

/** The newest request for a model, as the mock received it. */
export const bodyOf = async (model) => JSON.parse((await get("/__bodies", MOCK_URL))[model]);

export const resetMock = () => fetch(`${MOCK_URL}/__reset`, { method: "POST" });

/** Takes back into use the key that the node has from its environment, after a provider has said that it is none. */
export async function revive() {
  const headers = { authorization: `Bearer ${process.env.CLIENT_ADMIN_KEY}`, "content-type": "application/json" };
  const body = JSON.stringify({ action: "revive", provider: "openai", profile: "env" });
  const answer = await fetch(`${URL}/v1/harness/credentials`, { method: "POST", headers, body });
  holds(answer.ok, `revive: ${answer.status} ${await answer.text()}`);
}
