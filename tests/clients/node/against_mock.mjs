// OpenAI's Node SDK against a node in front of the mock, whose model names choose how it answers.

import {
  MOCK_URL, OpenAI, TIME, URL, WEATHER, ask, awaited, bodyOf, check, client, clientOf, equal, get, hits, holds, main,
  raised, read, resetMock, revive, runOf, streamed, user, whole,
} from "./report.mjs";

const WHOLE =
  "The quick brown fox jumps over the lazy dog while the cat watches from the fence and ponders life. ".repeat(2);
const DELTAS = Array.from({ length: 20 }, (_, i) => `tok${i} `).join("");
const PARIS = { id: "call_a", name: "get_weather", arguments: '{"city":"Paris"}' };
const UTC = { id: "call_b", name: "get_time", arguments: '{"tz":"UTC"}' };

// A node that works at one run at a time, with short pauses between its own retries.
const narrow = (maxRetries) => clientOf(process.env.NARROW_URL, process.env.NARROW_KEY, { maxRetries });
const hi = (model, more = {}) => ({ model, messages: [user("hi")], ...more });
const said = (call) => ({ id: call.id, name: call.function.name, arguments: call.function.arguments });
/** A completion and its response. */
const withHeaders = (model, messages, headers) =>
  client.chat.completions.create({ model, messages }, { headers }).withResponse();

check("models are listed and found", async () => {
  const listed = [];
  for await (const model of client.models.list()) listed.push(model.id);
  holds(listed.length && listed.every((name) => name.startsWith("openai:")), listed);
  equal((await client.models.retrieve(listed[0])).id, listed[0], "the model that is retrieved");
});

check("a whole answer", async () => {
  const answer = await ask("m-plain");
  const [{ message, finish_reason }] = answer.choices;
  equal([message.role, message.content, finish_reason], ["assistant", WHOLE, "stop"]);
  equal([answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens], [12, 20, 32]);
  equal([answer.object, answer.model], ["chat.completion", "m-plain"]);
});

check("three spellings of a model are served by the same one", async () => {
  for (const name of ["m-plain", "openai:m-plain", "openai/m-plain"]) {
    const { response } = await withHeaders(name, [user("hi")], {});
    equal(response.headers.get("x-piton-served-by"), "openai:m-plain", name);
  }
});

check("a streamed answer with usage", async () => {
  const stream = await whole(streamed("m-plain"));
  equal([stream.text, stream.finishes], [DELTAS, ["stop"]]);
  equal(stream.usages.map((usage) => usage.total_tokens), [32], "the totals of usage");
});

check("a streamed answer without usage", async () => {
  const stream = await whole(ask("m-plain", "hi", { stream: true }));
  equal([stream.text, stream.usages], [DELTAS, []]);
});

check("the stream helper puts the answer together", async () => {
  const more = { tools: [WEATHER, TIME], stream_options: { include_usage: true } };
  const final = await client.chat.completions.stream(hi("m-tool", more)).finalChatCompletion();
  equal(final.choices[0].message.tool_calls.map(said), [PARIS, UTC], "the calls");
  equal([final.choices[0].finish_reason, final.usage.total_tokens], ["tool_calls", 32]);
});

check("many streams at once", async () => {
  const streams = await Promise.all(Array.from({ length: 16 }, () => whole(streamed("m-plain"))));
  equal(streams.map((stream) => stream.text), Array(16).fill(DELTAS));
});

check("parallel tool calls whole", async () => {
  const [{ message, finish_reason }] = (await ask("m-tool", "hi", { tools: [WEATHER, TIME] })).choices;
  equal(message.tool_calls.map(said), [PARIS, UTC], "the calls");
  equal([finish_reason, message.content], ["tool_calls", null]);
});

check("parallel tool calls streamed with their pieces mixed", async () => {
  const stream = await whole(streamed("m-tool", "hi", { tools: [WEATHER, TIME] }));
  equal([stream.calls, stream.finishes], [[PARIS, UTC], ["tool_calls"]]);
});

check("results of tools reach the model as they were given", async () => {
  const tools = [WEATHER, TIME];
  const called = (await ask("m-tool", "hi", { tools })).choices[0].message;
  const results = [
    { role: "tool", tool_call_id: "call_a", content: "rain, 7 °C" },
    { role: "tool", tool_call_id: "call_b", content: "noon" },
  ];
  for (const [model, stream] of [["m-after", false], ["m-after-streamed", true]]) {
    // The SDK's own message object goes back as it came.
    const messages = [user("hi"), called, ...results];
    const answer = await client.chat.completions.create({ model, messages, tools, stream });
    if (stream) equal((await whole(answer)).text, DELTAS);
    else equal(answer.choices[0].message.content, WHOLE);
    const sent = (await bodyOf(model)).messages;
    equal(sent.map((message) => message.role), ["user", "assistant", "tool", "tool"], "the roles");
    equal(sent[1].tool_calls.map(said), [PARIS, UTC], "the calls that were sent back");
    equal(sent.slice(2).map((m) => [m.tool_call_id, m.content]), [["call_a", "rain, 7 °C"], ["call_b", "noon"]]);
  }
});

check("pieces of calls that may belong to two are no calls", async () => {
  const stream = await read(await streamed("m-tool-noindex", "hi", { tools: [WEATHER, TIME] }));
  if (stream.error) equal(stream.finishes, [], "the finish reasons before the error");
  else equal([stream.calls, stream.finishes], [[PARIS, UTC], ["tool_calls"]]);
});

check("a wrong key is an authentication error", async () => {
  const wrong = clientOf(URL, "wrong");
  for (const stream of [false, true]) {
    const call = () => wrong.chat.completions.create(hi("m-plain", { stream }));
    const error = await raised(OpenAI.AuthenticationError, call);
    equal([error.status, error.code], [401, "unauthorized"]);
  }
  await raised(OpenAI.AuthenticationError, () => wrong.models.list());
});

check("a reader may list models and not ask one", async () => {
  const reader = clientOf(URL, process.env.READER_KEY);
  holds((await reader.models.list()).data.length, "no model is listed");
  const error = await raised(OpenAI.PermissionDeniedError, () => reader.chat.completions.create(hi("m-plain")));
  equal([error.status, error.code], [403, "forbidden"]);
});

check("an unknown provider is refused before anybody is asked", async () => {
  const before = await get("/__stats", MOCK_URL);
  // Misspelt; known but without a key here.
  const refused = [
    ["opnai", OpenAI.BadRequestError, "invalid_model"],
    ["anthropic", OpenAI.InternalServerError, "route_unconfigured"],
    ["deepseek", OpenAI.InternalServerError, "route_unconfigured"],
  ];
  for (const [provider, kind, code] of refused) {
    const error = await raised(kind, () => ask(`${provider}:m-plain`));
    equal(error.code, code, provider);
    holds(error.message.includes(provider), error.message);
  }
  equal(await get("/__stats", MOCK_URL), before, "what the mock has seen");
});

check("a bad request names the field", async () => {
  for (const [field, value] of [["temperature", "hot"], ["n", 2], ["max_tokens", 0], ["stop", Array(500).fill("x")]]) {
    const error = await raised(OpenAI.BadRequestError, () => ask("m-plain", "hi", { [field]: value }));
    equal([error.status, error.type, error.param], [400, "invalid_request_error", field], field);
  }
  const messages = [user("hi"), { role: "tool", tool_call_id: "nobody", content: "x" }];
  const stray = () => client.chat.completions.create({ model: "m-plain", messages });
  const error = await raised(OpenAI.BadRequestError, stray);
  holds(error.param.startsWith("messages[1]"), error.param);
});

check("parameters reach the provider and the caller's key does not", async () => {
  const more = { temperature: 0.25, seed: 7, stop: ["END"], max_completion_tokens: 99, user: "u-1" };
  await ask("m-parameters", "hi", { ...more, a_field_of_tomorrow: { a: 1 } });
  const sent = await bodyOf("m-parameters");
  for (const field of ["temperature", "seed", "stop"]) equal(sent[field], more[field], field);
  equal(sent.max_completion_tokens ?? sent.max_tokens, 99, "the most output");
  const keys = Object.keys(await get("/__stats", MOCK_URL)).map((key) => key.split(" ")[1]);
  equal([...new Set(keys)], ["key=dummy"], "the keys that the provider saw");
});

check("the provider's 401 is not the caller's", async () => {
  for (const stream of [false, true]) {
    await resetMock();
    // The provider says that the key is none: nobody asks with it again until somebody revives it.
    for (const _ of [1, 2]) {
      const error = await raised(OpenAI.InternalServerError, () => ask("m-401", "hi", { stream }));
      equal([error.status, error.code], [502, "providers_exhausted"]);
    }
    equal((await hits("m-401")).length, 1, "the calls at the provider");
    await revive();
    equal((await ask("m-plain")).choices[0].message.content, WHOLE);
  }
});

check("a rate limit that passes is waited for by the node", async () => {
  // The SDK may not repeat here: it would hide a node that does not.
  const once = client.withOptions({ maxRetries: 0 });
  for (const stream of [false, true]) {
    await resetMock();
    const answer = await once.chat.completions.create(hi("m-flaky2", { stream }));
    if (stream) equal((await whole(answer)).text, DELTAS);
    else equal(answer.choices[0].message.content, WHOLE);
    equal((await hits("m-flaky2")).length, 3, "the calls at the provider");
  }
});

check("a rate limit that stays is a rate limit error", async () => {
  // As often as the rules grant; a caller is told when to come back, which the SDK would.
  const error = await raised(OpenAI.RateLimitError, () => narrow(0).chat.completions.create(hi("m-429-ra1")));
  equal([error.status, error.headers.get("x-should-retry")], [429, "true"]);
  holds(Number(error.headers.get("retry-after")) > 0, error.headers.get("retry-after"));
  equal((await hits("m-429-ra1")).length, 21, "the calls at the provider");
});

check("a node without room says so and the SDK comes back", async () => {
  const slow = narrow(0).chat.completions.create(hi("m-slow3000"));
  await Promise.all([
    slow,
    (async () => {
      await awaited("the slow run is at work", async () => (await hits("m-slow3000")).length);
      const error = await raised(OpenAI.RateLimitError, () => narrow(0).chat.completions.create(hi("m-plain")));
      equal([error.code, error.headers.get("x-should-retry")], ["too_many_runs", "true"]);
      holds(Number(error.headers.get("retry-after")) > 0, "no retry-after");
      const answer = await narrow(20).chat.completions.create(hi("m-plain"));
      equal(answer.choices[0].message.content, WHOLE);
    })(),
  ]);
});

check("a provider that fails is an API error and is not asked again by the SDK", async () => {
  for (const [model, streams] of [["m-500", [false, true]], ["m-cut0", [true]]]) {
    for (const stream of streams) {
      await resetMock();
      const error = await raised(OpenAI.InternalServerError, () => ask(model, "hi", { stream }));
      equal([error.status, error.code], [502, "providers_exhausted"], model);
      equal((await hits(model)).length, 3, `the calls of ${model} at the provider`);
    }
  }
});

check("a stream that is cut raises and does not end as if done", async () => {
  const cut = [
    ["m-cut", "tok0 tok1 tok2 tok3 tok4 ", "providers_exhausted"],
    ["m-errmid", "tok0 tok1 tok2 ", "rate_limit_exceeded"],
  ];
  for (const [model, text, code] of cut) {
    const stream = await read(await streamed(model));
    holds(stream.error !== null, `${model} ended with ${stream.finishes}`);
    equal([stream.text, stream.finishes, stream.usages], [text, [], []], model);
    equal(stream.error.code, code, `the code of ${model}`);
  }
});

check("an answer without choices is an error", async () => {
  await raised(OpenAI.InternalServerError, () => ask("m-emptychoices"));
});

check("an answer without content is an empty text", async () => {
  const [{ message, finish_reason }] = (await ask("m-nullcontent")).choices;
  equal([message.content || "", message.tool_calls ?? null, finish_reason], ["", null, "stop"]);
});

check("characters that were cut into bytes come whole", async () => {
  equal((await whole(streamed("m-utf8"))).text, "héllo 日本語 🦀🚀👩\u200d👩\u200d👧 fin");
});

check("a streamed text is the text of the journal", async () => {
  const stream = await whole(streamed("m-utf8"));
  equal((await get(`/v1/runs/${runOf(stream)}`)).output, stream.text, "the run's output");
});

check("usage that nobody said is null and not zero", async () => {
  equal((await ask("m-nousage")).usage, null, "usage");
  equal((await whole(streamed("m-nousage"))).usages, [], "the usages of the stream");
});

check("cached and reasoning tokens are shown", async () => {
  const stream = (await whole(streamed("m-cached"))).usages;
  for (const usage of [(await ask("m-cached")).usage, ...stream]) {
    const details = [usage.prompt_tokens_details.cached_tokens, usage.completion_tokens_details.reasoning_tokens];
    equal([usage.prompt_tokens, ...details], [1000, 900, 5]);
  }
  equal(stream.length, 1, "the usages of the stream");
});

check("usage that came twice counts once", async () => {
  const stream = await whole(streamed("m-usagelast"));
  equal(stream.usages.map((usage) => usage.total_tokens), [32], "the usages of the stream");
  equal((await get(`/v1/runs/${runOf(stream)}`)).usage.prompt_tokens, 12, "the run's prompt tokens");
});

check("a session goes on and guards its history", async () => {
  const bound = (messages, more = {}) =>
    withHeaders("m-session", messages, { "x-piton-session-id": `node-${process.pid}`, ...more });
  const session = ({ response }) => response.headers.get("x-piton-session-id");
  const one = await bound([user("one")]);
  const history = [user("one"), one.data.choices[0].message, user("two")];
  const two = await bound(history);
  equal(session(two), session(one), "the session of the second turn");
  equal((await bodyOf("m-session")).messages.map((m) => m.content), ["one", WHOLE, "two"], "what the provider saw");
  const kept = await get(`/v1/sessions/${session(one)}/messages`);
  equal(kept.data.map((m) => m.role), ["user", "assistant", "user", "assistant"], "the roles of the session");

  const changed = [user("ONE"), ...history.slice(1), two.data.choices[0].message, user("three")];
  const before = (await hits("m-session")).length;
  const error = await raised(OpenAI.ConflictError, () => bound(changed));
  equal([error.code, error.param], ["history_mismatch", "messages[0]"]);
  equal((await hits("m-session")).length, before, "the calls at the provider");
  const forked = await bound(changed, { "x-piton-history": "fork" });
  holds(session(forked) && session(forked) !== session(one), "the fork has the session's own id");
});

check("headers tell which run answered", async () => {
  const { data, response } = await withHeaders("m-plain", [user("hi")], { "x-request-id": "mine-1" });
  equal([response.headers.get("x-request-id"), response.headers.get("x-piton-run-id")], ["mine-1", runOf(data)]);
  equal(data._request_id, "mine-1", "the SDK's request id");
  const raw = await client.chat.completions.create(hi("m-plain", { stream: true })).withResponse();
  holds(raw.response.headers.get("x-request-id"), "there is no x-request-id");
  equal(raw.response.headers.get("x-piton-run-id"), runOf(await whole(raw.data)), "the stream's run");
});

check("an error tells which run failed", async () => {
  const error = await raised(OpenAI.InternalServerError, () => ask("m-500"));
  holds(error.requestID, "there is no x-request-id");
  const run = error.headers.get("x-piton-run-id");
  holds(run, `there is no x-piton-run-id in ${JSON.stringify([...error.headers.keys()])}`);
  equal((await get(`/v1/runs/${run}`)).outcome, "errored");
});

check("an idempotency key asks once", async () => {
  const before = (await hits("m-once")).length;
  const keyed = (text) => withHeaders("m-once", [user(text)], { "idempotency-key": `node-${process.pid}` });
  const [first, again] = [await keyed("hi"), await keyed("hi")];
  equal([again.data.id, again.data.choices[0].message.content], [first.data.id, WHOLE]);
  equal((await hits("m-once")).length - before, 1, "the calls at the provider");
  const error = await raised(OpenAI.ConflictError, () => keyed("other"));
  equal(error.code, "idempotency_key_conflict");
});

check("an idempotency key asks once in a session too", async () => {
  const names = { "idempotency-key": `node-${process.pid}-bound`, "x-piton-session-id": `node-${process.pid}-once` };
  const before = (await hits("m-once")).length;
  const keyed = () => withHeaders("m-once", [user("hi")], names);
  const [first, again] = [await keyed(), await keyed()];
  equal(again.data.id, first.data.id, "the run that answers");
  equal((await hits("m-once")).length - before, 1, "the calls at the provider");
});

check("a caller who leaves does not end the run", async () => {
  const stream = await streamed("m-plain");
  let run;
  for await (const chunk of stream) {
    run = runOf(chunk);
    break;
  }
  const ended = await awaited("the run has ended", async () => {
    const found = await get(`/v1/runs/${run}`);
    return found.outcome && found;
  });
  equal([ended.outcome, ended.output], ["completed", DELTAS]);
});

const events = (commit) => commit.entries.map((entry) => entry.name);

check("the intent is in the journal while the provider still thinks", async () => {
  let answer;
  const slow = ask("m-slow2500").then((got) => (answer = got));
  await awaited("the mock was asked", async () => (await hits("m-slow2500")).length);
  const runs = await awaited("the list has the run", async () => {
    const found = (await get("/v1/runs?limit=50")).data.filter((run) => run.model === "openai:m-slow2500");
    return found.length > 0 && found;
  });
  equal(runs.length, 1, "the number of runs that are listed");
  const seen = (await get(`/v1/runs/${runs[0].id}/journal`)).flatMap(events);
  holds(!answer, "the answer came before the look: the check says nothing");
  equal(seen, ["queued", "started", "model_asked"], "the events before the answer");
  await slow;
  equal(runOf(answer), runs[0].id, "the run that answered");
});

await main();
