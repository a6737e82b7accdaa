// OpenAI's Node SDK against a node in front of a genuine llama.cpp server. The model is small: the wire is judged, not
// the words, and few tokens are asked for, since a busy machine makes two in a second.

import {
  OpenAI, WEATHER, ask, awaited, check, client, equal, get, holds, main, raised, runOf, streamed, user, whole,
} from "./report.mjs";

const MODEL = "llamacpp:gemma";
const FEW = { max_tokens: 8, temperature: 0 };
// Characters of one to four bytes, and one of several parts: more bytes than tokens, so that tokens cut characters.
const WIDE = "é日本語🦀👩\u200d👧";

/** A response format that admits only these properties, so that even this model keeps to it. */
const schema = (properties) => ({
  type: "json_schema",
  json_schema: {
    name: "shape",
    strict: true,
    schema: { type: "object", properties, required: Object.keys(properties), additionalProperties: false },
  },
});

check("three spellings of a model are served by the same one", async () => {
  for (const model of ["gemma", "llamacpp:gemma", "llamacpp/gemma"]) {
    const body = { model, messages: [user("hi")], max_tokens: 1 };
    const { data, response } = await client.chat.completions.create(body).withResponse();
    equal(response.headers.get("x-piton-served-by"), "llamacpp:gemma", model);
    equal(response.headers.get("x-piton-run-id"), runOf(data), model);
  }
});

check("a whole answer that reaches its bound", async () => {
  const { choices: [{ message, finish_reason }], usage } = await ask(MODEL, "hi", FEW);
  equal([message.role, finish_reason], ["assistant", "length"]);
  holds(message.content && usage.prompt_tokens > 0, [message, usage]);
  equal([usage.completion_tokens, usage.total_tokens], [8, usage.prompt_tokens + 8], "usage");
});

check("a streamed answer is the one of the journal", async () => {
  const stream = await whole(streamed(MODEL, "hi", FEW));
  equal(stream.finishes, ["length"]);
  equal(stream.usages.map((usage) => usage.completion_tokens), [8], "the usages");
  const ended = await get(`/v1/runs/${runOf(stream)}`);
  equal([ended.output, ended.usage.completion_tokens], [stream.text, 8], "the run's output and usage");
});

check("the stream helper puts the answer together", async () => {
  const body = { model: MODEL, messages: [user("hi")], stream_options: { include_usage: true }, ...FEW };
  const final = await client.chat.completions.stream(body).finalChatCompletion();
  equal([final.choices[0].finish_reason, final.usage.completion_tokens], ["length", 8]);
});

check("a structured answer parses", async () => {
  const response_format = schema({ colour: { type: "string", enum: ["red", "green"] }, sure: { type: "boolean" } });
  const body = { model: MODEL, messages: [user("hi")], response_format, max_tokens: 64, temperature: 0 };
  const [{ message, finish_reason }] = (await client.chat.completions.parse(body)).choices;
  equal(finish_reason, "stop");
  const { colour, sure } = JSON.parse(message.content);
  holds(["red", "green"].includes(colour) && typeof sure === "boolean", message.content);
});

check("characters that tokens cut come whole", async () => {
  const response_format = schema({ text: { type: "string", enum: [WIDE] } });
  const stream = await whole(streamed(MODEL, "hi", { response_format, max_tokens: 96, temperature: 0 }));
  equal(stream.finishes, ["stop"]);
  holds(stream.text.includes(WIDE) && !stream.text.includes("\ufffd"), stream.text);
});

check("a history with results of tools is taken", async () => {
  const call = { id: "call_a", type: "function", function: { name: "get_weather", arguments: '{"city": "Paris"}' } };
  const messages = [
    user("What is the weather in Paris?"),
    { role: "assistant", content: null, tool_calls: [call] },
    { role: "tool", tool_call_id: "call_a", content: "rain" },
  ];
  for (const stream of [false, true]) {
    const answer = await client.chat.completions.create({ model: MODEL, messages, tools: [WEATHER], stream, ...FEW });
    const finish = stream ? (await whole(answer)).finishes[0] : answer.choices[0].finish_reason;
    holds(["stop", "length", "tool_calls"].includes(finish), finish);
  }
});

check("a prompt that is too long is a bad request", async () => {
  for (const stream of [false, true]) {
    const error = await raised(OpenAI.BadRequestError, () => ask(MODEL, "word ".repeat(9000), { stream, ...FEW }));
    equal(error.status, 400);
    holds(error.message.includes("context"), error.message);
  }
});

check("a session goes on", async () => {
  const headers = { "x-piton-session-id": `node-${process.pid}` };
  const bound = (messages) => client.chat.completions.create({ model: MODEL, messages, ...FEW }, { headers });
  const messages = [user("one")];
  for (const turn of ["two", "three"]) messages.push((await bound(messages)).choices[0].message, user(turn));
  const error = await raised(OpenAI.ConflictError, () => bound([user("ONE"), ...messages.slice(1)]));
  equal(error.code, "history_mismatch");
});

check("more callers than the model has places are all answered", async () => {
  const streams = await Promise.all([0, 1, 2, 3].map((i) => whole(streamed(MODEL, `caller ${i}`, FEW))));
  equal(streams.map((stream) => stream.finishes), Array(4).fill(["length"]));
});

check("the intent is in the journal when the first word comes, and a caller may leave", async () => {
  const stream = await ask(MODEL, "hi", { stream: true, max_tokens: 24, temperature: 0 });
  let run;
  for await (const chunk of stream) {
    run = runOf(chunk);
    const seen = (await get(`/v1/runs/${run}/journal`)).flatMap((commit) => commit.entries.map((entry) => entry.name));
    equal(seen, ["queued", "started", "model_asked"], "the events at the first word");
    break;
  }
  const ended = await awaited("the run has ended", async () => {
    const found = await get(`/v1/runs/${run}`);
    return found.outcome && found;
  });
  equal([ended.outcome, ended.usage.completion_tokens], ["completed", 24]);
});

await main();
