// Vercel's AI SDK by its four ways to a node: OpenAI's chat and Responses, Anthropic's Messages, and "OpenAI compatible".
// In front of the demo's script and the mock; the SDK runs the tools by itself.

import { createRequire } from "node:module";
import { ATTEMPTS, DELTAS, DEMO, MOCK, NARROW, NEW, SIGN, hitsOf, says, withoutRoom } from "./nodes.mjs";
import { check, equal, holds, main, raised } from "./report.mjs";

globalThis.AI_SDK_LOG_WARNINGS = false;
const require = createRequire(process.env.CLIENT_MODULES + "/");
const { APICallError, RetryError, generateText, stepCountIs, streamText, tool } = require("ai");
const { createAnthropic } = require("@ai-sdk/anthropic");
const { createOpenAI } = require("@ai-sdk/openai");
const { createOpenAICompatible } = require("@ai-sdk/openai-compatible");
const { z } = require("zod");

const at = ({ v1, key }) => ({ baseURL: v1, apiKey: key });
const WAYS = {
  chat: (node, name) => createOpenAI(at(node)).chat(name),
  responses: (node, name) => createOpenAI(at(node)).responses(name),
  messages: (node, name) => createAnthropic(at(node))(name),
  compatible: (node, name) => createOpenAICompatible({ name: "piton", includeUsage: true, ...at(node) })(name),
};

const asked = (way, prompt, { node = DEMO, name = "demo", ...more } = {}) => ({
  model: WAYS[way](node, name), prompt, maxRetries: 0, maxOutputTokens: 1000, ...more,
});
const ask = (...given) => generateText(asked(...given));

/** A stream, read to its end or to its error: the pieces of its text, its steps and its usage. */
async function streamed(...given) {
  const stream = streamText({ ...asked(...given), onError: () => {} });
  const pieces = [];
  let error = null;
  for await (const part of stream.fullStream) {
    if (part.type === "text-delta") pieces.push(part.text);
    if (part.type === "error") error = part.error;
  }
  if (error) return { pieces, error };
  return { pieces, error, text: await stream.text, steps: await stream.steps, usage: await stream.totalUsage };
}

const weather = tool({
  description: "The weather of a city.",
  inputSchema: z.object({ city: z.string() }),
  execute: async ({ city }) => `rain in ${city}`,
});
const broken = tool({
  description: "A tool that fails.",
  inputSchema: z.object({}),
  execute: async () => {
    throw new Error("no such city");
  },
});
const silent = (field) => tool({ description: "For another to run.", inputSchema: z.object({ [field]: z.string() }) });

check("whole and streamed answers are the same", async () => {
  for (const way of Object.keys(WAYS)) {
    const [whole, stream] = [await ask(way, "hello there"), await streamed(way, "hello there")];
    holds(whole.text.startsWith(says("hello there")), whole.text);
    equal([stream.text, stream.pieces.join("")], [whole.text, whole.text], way);
    holds(stream.pieces.length > 5 && whole.usage.totalTokens > 0, stream.pieces);
    equal(stream.usage.totalTokens, whole.usage.totalTokens, `the tokens of ${way}`);
    equal(whole.finishReason, "stop", way);
  }
});

check("the SDK runs its tool and the answer has the result", async () => {
  const more = { tools: { get_weather: weather }, stopWhen: stepCountIs(3) };
  for (const way of Object.keys(WAYS)) {
    for (const by of [ask, streamed]) {
      const { text, steps } = await by(way, 'tool get_weather {"city": "Paris"}', more);
      equal([steps.length, text], [2, `${SIGN}The tool get_weather answers: rain in Paris`], way);
    }
  }
});

check("a tool that failed is told", async () => {
  for (const way of Object.keys(WAYS)) {
    const { text } = await ask(way, "tool broken {}", { tools: { broken }, stopWhen: stepCountIs(3) });
    holds(text.includes("no such city"), text);
  }
});

check("parallel calls whose pieces come mixed are kept apart", async () => {
  const more = { node: MOCK, name: "m-tool", tools: { get_weather: silent("city"), get_time: silent("tz") } };
  for (const way of Object.keys(WAYS)) {
    for (const by of [ask, streamed]) {
      const [{ toolCalls }] = (await by(way, "hi", more)).steps;
      const wanted = [["get_weather", { city: "Paris" }], ["get_time", { tz: "UTC" }]];
      equal(toolCalls.map(({ toolName, input }) => [toolName, input]), wanted, way);
    }
  }
});

check("errors are those of the SDK", async () => {
  const status = async (...given) => (await raised(APICallError, () => ask(...given))).statusCode;
  for (const way of Object.keys(WAYS)) {
    equal(await status(way, "hi", { node: { ...DEMO, key: "wrong" } }), 401, way);
    equal(await status(way, "hi", { node: MOCK, name: "opnai:demo" }), 400, way);
    equal(await status(way, `fail 401 ${way} ${NEW}`), 502, way);
  }
});

check("a stream that breaks is an error part, behind what came before it", async () => {
  for (const way of Object.keys(WAYS)) {
    const { error, pieces } = await streamed(way, `fail cut ${way} ${NEW}`);
    holds(JSON.stringify(error?.message ?? error)?.includes("stream_truncated"), error);
    holds(pieces.join("").startsWith(`${SIGN}failure 1 of 2`), pieces);
  }
});

check("a node without room is tried again", async () => {
  for (const way of Object.keys(WAYS)) {
    const more = { node: NARROW, name: "m-plain" };
    const { text } = await withoutRoom(async () => {
      const refused = await raised(APICallError, () => ask(way, "hi", more));
      equal([refused.statusCode, refused.isRetryable], [429, true], way);
      return streamed(way, "hi", { ...more, maxRetries: 5 });
    });
    equal(text, DELTAS, way);
  }
});

check("a provider that fails is asked again by the SDK's own rule", async () => {
  // It heeds no `x-should-retry`: each status from 500 on is worth another try to it.
  const fails = () => raised(RetryError, () => ask("chat", "hi", { node: MOCK, name: "m-500", maxRetries: 1 }));
  equal(await hitsOf("m-500", fails), 2 * ATTEMPTS, "the calls at the provider");
});

await main();
