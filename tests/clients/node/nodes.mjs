// The nodes that a client of the matrix is tried on: the demo's script, the mock, and the mock with room for one run.

import { URL, awaited, get, hits, resetMock } from "./report.mjs";

const node = (url, key) => ({ url, key, v1: `${url}/v1` });
export const DEMO = node(URL, process.env.CLIENT_KEY);
export const MOCK = node(process.env.MOCK_NODE_URL, process.env.MOCK_NODE_KEY);
export const NARROW = node(process.env.NARROW_URL, process.env.NARROW_KEY);

// How the demo begins each answer, and what the mock streams.
export const SIGN = "[scripted demo] ";
export const DELTAS = Array.from({ length: 20 }, (_, i) => `tok${i} `).join("");
// How often the node itself asks a provider that fails, before it says so.
export const ATTEMPTS = 3;
// The demo fails twice for each text: one that is new in each process begins anew.
export const NEW = String(process.pid);

/** What the demo answers to a text that it does not know begins like this. */
export const says = (text) => `${SIGN}You said: ${text}`;

/** While a call is made, the narrow node is at work at its one run, and refuses another with 429 and a `retry-after`. */
export async function withoutRoom(call, millis = 1500) {
  const headers = { authorization: `Bearer ${NARROW.key}`, "content-type": "application/json" };
  const body = JSON.stringify({ model: `m-slow${millis}`, input: "hi" });
  const { id } = await (await fetch(`${NARROW.url}/v1/runs`, { method: "POST", headers, body })).json();
  const got = await call();
  await awaited("the slow run has ended", async () => (await get(`/v1/runs/${id}`, NARROW.url)).outcome);
  return got;
}

/** How often the mock is asked for a model while a call is made. */
export async function hitsOf(model, call) {
  await resetMock();
  await call();
  return (await hits(model)).length;
}
