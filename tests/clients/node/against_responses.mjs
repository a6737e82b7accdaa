// OpenAI's Node SDK at /v1/responses, in front of the demo's script.

import { createRequire } from "node:module";
import { TIMEOUT, URL, check, equal, holds, main, raised } from "./report.mjs";

const { default: OpenAI } = createRequire(process.env.CLIENT_MODULES + "/")("openai");
const SIGN = "[scripted demo] ";
const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const tools = [{ type: "function", name: "get_weather", parameters, strict: false }];

const client = new OpenAI({ baseURL: `${URL}/v1`, apiKey: process.env.CLIENT_KEY, timeout: TIMEOUT });
const ask = (input, more = {}) => client.responses.create({ model: "demo", input, ...more });
const streamed = (input, more = {}) => client.responses.stream({ model: "demo", input, ...more }).finalResponse();

check("an answer is kept and read again", async () => {
  const answer = await ask("hello", { metadata: { mine: "1" } });
  holds(answer.output_text.startsWith(SIGN) && answer.usage.total_tokens > 0, answer);
  const again = await client.responses.retrieve(answer.id);
  equal([again.status, again.output, again.metadata], ["completed", answer.output, { mine: "1" }]);
});

check("a stream comes word by word and says the same", async () => {
  const [types, pieces] = [new Set(), []];
  for await (const event of await ask("hello there", { stream: true })) {
    types.add(event.type);
    if (event.type === "response.output_text.delta") pieces.push(event.delta);
  }
  equal(pieces.join(""), (await ask("hello there")).output_text);
  equal((await streamed("hello there")).output_text, pieces.join(""));
  holds(pieces.length > 5 && types.has("response.content_part.done") && types.has("response.completed"), [...types]);
});

check("a tool call goes round by id and with everything sent again", async () => {
  const text = 'tool get_weather {"city": "Paris"}';
  for (const called of [await ask(text, { tools }), await streamed(text, { tools })]) {
    const call = called.output.find(({ type }) => type === "function_call");
    equal([call.name, call.arguments], ["get_weather", '{"city": "Paris"}']);
    const result = { type: "function_call_output", call_id: call.call_id, output: "rain" };
    const byId = await ask([result], { tools, previous_response_id: called.id });
    const again = await ask([{ role: "user", content: text }, ...called.output, result], { tools, store: false });
    holds(byId.output_text.includes("answers: rain"), byId.output_text);
    equal(again.output_text, byId.output_text);
    await raised(OpenAI.NotFoundError, () => client.responses.retrieve(again.id));
  }
});

check("errors are those of the SDK", async () => {
  await raised(OpenAI.BadRequestError, () => ask("hi", { background: true }));
  await raised(OpenAI.APIError, () => streamed("fail cut responses node"));
});

await main();
