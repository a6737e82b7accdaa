// OpenAI's Node SDK against `piton serve --demo`: a script answers, so tool round trips end in a known text.

import {
  OpenAI, TIME, WEATHER, ask, check, client, equal, get, holds, main, raised, read, runOf, streamed, user, whole,
} from "./report.mjs";

const SIGN = "[scripted demo] ";
const CLOCK = { type: "function", function: { name: "clock_now" } };
const NOTE = { type: "function", function: { name: "note_append" } };
const create = (messages, more = {}, headers = {}) =>
  client.chat.completions.create({ model: "demo", messages, ...more }, { headers });
const result = (call, content) => ({ role: "tool", tool_call_id: call.id, content });
const session = (name) => ({ "x-piton-session-id": `node-${process.pid}-${name}` });

check("models are listed", async () => {
  holds((await client.models.list()).data.some((model) => model.id === "demo:demo"), "demo:demo is not listed");
});

check("every answer says that it is scripted", async () => {
  // A client whose model is set to something else is answered too.
  for (const name of ["demo", "demo:demo", "demo/demo-2", "gpt-4o"]) {
    const answer = await ask(name, "hello");
    holds(answer.choices[0].message.content.startsWith(SIGN), name);
    holds(answer.usage.total_tokens > 0, name);
  }
});

check("a stream comes word by word and says the same", async () => {
  const stream = await whole(streamed("demo", "hello there"));
  equal(stream.text, (await ask("demo", "hello there")).choices[0].message.content);
  holds(stream.chunks > 5 && stream.usages.length === 1, [stream.chunks, stream.usages]);
});

check("a tool call goes round", async () => {
  const tools = [WEATHER, TIME];
  for (const stream of [false, true]) {
    const messages = [user('tool get_weather {"city": "Paris"}')];
    const body = { model: "demo", messages, tools };
    const called = stream
      ? (await client.chat.completions.stream(body).finalChatCompletion()).choices[0]
      : (await create(messages, { tools })).choices[0];
    const [call] = called.message.tool_calls;
    equal([called.finish_reason, call.function.name], ["tool_calls", "get_weather"]);
    equal(call.function.arguments, '{"city": "Paris"}', "the arguments");
    const answer = await create([...messages, called.message, result(call, "rain")], { tools, stream });
    const text = stream ? (await whole(answer)).text : answer.choices[0].message.content;
    equal(text, `${SIGN}The tool get_weather answers: rain`);
  }
});

check("the SDK's own tool loop runs to its end", async () => {
  for (const stream of [false, true]) {
    const given = [];
    const weather = (city) => (given.push(city), "rain");
    const tool = { ...WEATHER, function: { ...WEATHER.function, parse: JSON.parse, function: weather } };
    const messages = [user('tool get_weather {"city": "Paris"}')];
    const runner = client.chat.completions.runTools({ model: "demo", messages, tools: [tool], stream });
    equal(await runner.finalContent(), `${SIGN}The tool get_weather answers: rain`);
    equal(given, [{ city: "Paris" }], "the arguments");
  }
});

check("parallel calls go round", async () => {
  for (const more of [{}, { parallel_tool_calls: false }]) {
    const [messages, rounds] = [[user("both: rope")], []];
    let message;
    for (;;) {
      ({ message } = (await create(messages, { tools: [CLOCK, NOTE], ...more })).choices[0]);
      if (!message.tool_calls) break;
      rounds.push(message.tool_calls.map((call) => call.function.name));
      messages.push(message, ...message.tool_calls.map((call) => result(call, `did ${call.function.name}`)));
    }
    const wanted = "parallel_tool_calls" in more ? [["clock_now"], ["note_append"]] : [["clock_now", "note_append"]];
    equal(rounds, wanted, `the calls with ${JSON.stringify(more)}`);
    const answers = ["clock_now", "note_append"].map((name) => `The tool ${name} answers: did ${name}`);
    equal(message.content, SIGN + answers.join("\n"));
  }
});

check("a call in a session is answered into the same run", async () => {
  const tools = [WEATHER];
  for (const stream of [false, true]) {
    const messages = [user('tool get_weather {"city": "Paris"}')];
    const called = await create(messages, { tools }, session(stream));
    equal((await get(`/v1/runs/${runOf(called)}`)).status, "waiting_for_client_tools");
    const { message } = called.choices[0];
    messages.push(message, result(message.tool_calls[0], "rain"));
    const answer = await create(messages, { tools, stream }, session(stream));
    const got = stream ? await whole(answer) : { id: answer.id, text: answer.choices[0].message.content };
    equal([runOf(got), got.text], [runOf(called), `${SIGN}The tool get_weather answers: rain`]);
    const ended = await get(`/v1/runs/${runOf(called)}`);
    equal([ended.status, ended.steps], ["completed", 2]);
    // The next turn begins with all of it.
    messages.push({ role: "assistant", content: got.text }, user("bye"));
    const bye = await create(messages, { tools }, session(stream));
    holds(bye.choices[0].message.content.includes("bye"), bye);
  }
});

check("results that miss a call are refused and the run waits on", async () => {
  const tools = [CLOCK, NOTE];
  const called = await create([user("both: rope")], { tools }, session("partly"));
  const { message } = called.choices[0];
  const results = message.tool_calls.map((call) => result(call, "done"));
  const answer = (some) => create([user("both: rope"), message, ...some], { tools }, session("partly"));
  const error = await raised(OpenAI.BadRequestError, () => answer(results.slice(0, 1)));
  holds(error.message.includes(message.tool_calls[1].id), error.message);
  equal((await get(`/v1/runs/${runOf(called)}`)).status, "waiting_for_client_tools");
  equal(runOf(await answer(results)), runOf(called), "the run that answers");
});

check("faults of the provider that pass are not seen", async () => {
  for (const fault of ["429", "500"]) {
    for (const stream of [false, true]) {
      const text = `fail ${fault} node ${stream}`;
      const said = stream
        ? (await whole(streamed("demo", text))).text
        : (await ask("demo", text)).choices[0].message.content;
      holds(said.startsWith(`${SIGN}After 2 calls that failed (${fault})`), said);
    }
  }
});

check("a stream that breaks raises", async () => {
  const stream = await read(await streamed("demo", "fail cut node streamed"));
  holds(stream.error !== null && !stream.finishes.length, [String(stream.error), stream.finishes]);
  await raised(OpenAI.InternalServerError, () => ask("demo", "fail 401 node"));
});

await main();
