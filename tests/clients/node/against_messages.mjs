// Anthropic's Node SDK at /v1/messages, in front of models of another family: the demo's script, and the mock.

import { createRequire } from "node:module";
import { TIMEOUT, URL, check, equal, get, holds, main, raised, user } from "./report.mjs";

const { default: Anthropic } = createRequire(process.env.CLIENT_MODULES + "/")("@anthropic-ai/sdk");
const SIGN = "[scripted demo] ";
const DELTAS = Array.from({ length: 20 }, (_, i) => `tok${i} `).join("");
const tool = (name, field) => ({
  name,
  input_schema: { type: "object", properties: { [field]: { type: "string" } } },
});
const TOOLS = [tool("get_weather", "city"), tool("get_time", "tz")];

const clientOf = (baseURL, apiKey, more = {}) => new Anthropic({ baseURL, apiKey, timeout: TIMEOUT, ...more });
const client = clientOf(URL, process.env.CLIENT_KEY);
// The node in front of the mock.
const mock = clientOf(process.env.MOCK_NODE_URL, process.env.MOCK_NODE_KEY);

const body = (text, more = {}) => ({ model: "demo", max_tokens: 1000, messages: [user(text)], ...more });
const ask = (text, more, by = client) => by.messages.create(body(text, more));
const streamed = (text, more, by = client) => by.messages.stream(body(text, more)).finalMessage();
const result = (call, content, more = {}) => user([{ type: "tool_result", tool_use_id: call.id, content, ...more }]);
const calls = ({ content }) => content.filter(({ type }) => type === "tool_use").map(({ name, input }) => [name, input]);

check("both generations of keys open the door", async () => {
  for (const by of [client, clientOf(URL, null, { authToken: process.env.CLIENT_KEY })]) {
    const answer = await ask("hello", {}, by);
    equal([answer.role, answer.stop_reason, answer.type], ["assistant", "end_turn", "message"]);
    holds(answer.content[0].text.startsWith(SIGN) && answer.usage.output_tokens > 0, answer);
    equal((await get(`/v1/runs/${answer.id.replace(/^msg_/, "")}`)).status, "completed", "the run");
  }
});

check("a stream comes word by word and says the same", async () => {
  let pieces = 0;
  const stream = client.messages.stream(body("hello there")).on("text", () => (pieces += 1));
  const [final, whole] = [await stream.finalMessage(), await ask("hello there")];
  equal(final.content[0].text, whole.content[0].text);
  holds(pieces > 5, `${pieces} pieces`);
  equal([final.stop_reason, final.usage.output_tokens], [whole.stop_reason, whole.usage.output_tokens]);
});

check("a tool call goes round and a failed tool is told", async () => {
  for (const by of [ask, streamed]) {
    const question = 'tool get_weather {"city": "Paris"}';
    const called = await by(question, { tools: TOOLS });
    equal([called.stop_reason, calls(called)], ["tool_use", [["get_weather", { city: "Paris" }]]]);
    const call = called.content.find(({ type }) => type === "tool_use");
    const said = { role: "assistant", content: called.content };
    for (const [sent, then] of [
      [result(call, "rain"), "answers: rain"],
      [result(call, "no", { is_error: true }), '"message":"no"'],
    ]) {
      const answer = await ask("", { tools: TOOLS, messages: [user(question), said, sent] });
      holds(answer.content[0].text.includes(then), answer.content[0].text);
    }
  }
});

check("parallel calls whose pieces come mixed are kept apart", async () => {
  const wanted = [["get_weather", { city: "Paris" }], ["get_time", { tz: "UTC" }]];
  for (const by of [ask, streamed]) equal(calls(await by("hi", { model: "m-tool", tools: TOOLS }, mock)), wanted);
  equal((await streamed("hi", { model: "m-plain" }, mock)).content[0].text, DELTAS);
});

check("tokens are counted from above", async () => {
  const { input_tokens } = await client.messages.countTokens({ model: "demo", messages: [user("hello")] });
  holds(input_tokens >= (await ask("hello")).usage.input_tokens, input_tokens);
});

check("errors are those of the SDK", async () => {
  const error = await raised(Anthropic.AuthenticationError, () => ask("hi", {}, clientOf(URL, "wrong")));
  equal([error.status, error.error.error.type], [401, "authentication_error"]);
  holds(error.requestID.startsWith("req_"), error.requestID);
  await raised(Anthropic.BadRequestError, () => ask("hi", { temperature: "hot" }));
  await raised(Anthropic.InternalServerError, () => ask("fail 401 anthropic node"));
});

check("faults that pass are not seen and a stream that breaks rejects", async () => {
  for (const fault of ["429", "500"]) {
    const said = (await ask(`fail ${fault} anthropic node`)).content[0].text;
    holds(said.startsWith(`${SIGN}After 2 calls that failed (${fault})`), said);
  }
  await raised(Anthropic.APIError, () => streamed("fail cut anthropic node"));
});

await main();
