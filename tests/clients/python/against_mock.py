"""OpenAI's Python SDK against a node in front of the mock, whose model names choose how it answers."""

import asyncio
import datetime
import json
import os
import threading
import time
import urllib.request

import openai

from completions import TIME, WEATHER, Streamed, ask, client, run_of, streamed
from report import (
    KEY, MOCK_URL, TIMEOUT, URL, awaited, body_of, check, equal, get, hits, main, raised, reset_mock, revive, user,
)

SENTENCE = "The quick brown fox jumps over the lazy dog while the cat watches from the fence and ponders life. "
WHOLE = SENTENCE * 2
DELTAS = "".join(f"tok{i} " for i in range(20))
PARIS = {"id": "call_a", "name": "get_weather", "arguments": '{"city":"Paris"}'}
UTC = {"id": "call_b", "name": "get_time", "arguments": '{"tz":"UTC"}'}

# A node that works at one run at a time, with short pauses between its own retries.
narrow = openai.OpenAI(base_url=f"{os.environ['NARROW_URL']}/v1", api_key=os.environ["NARROW_KEY"], timeout=TIMEOUT)


def with_key(key):
    return openai.OpenAI(base_url=f"{URL}/v1", api_key=key, timeout=TIMEOUT)


def with_header(model, messages, **headers):
    """A completion and its headers; `_` in a header's name stands for `-`."""
    extra = {name.replace("_", "-"): value for name, value in headers.items()}
    raw = client.chat.completions.with_raw_response.create(model=model, messages=messages, extra_headers=extra)
    return raw.parse(), raw.headers


def said(call):
    return {"id": call.id, "name": call.function.name, "arguments": call.function.arguments}


@check
def models_are_listed_and_found():
    listed = [model.id for model in client.models.list()]
    assert listed and all(name.startswith("openai:") for name in listed), listed
    equal(client.models.retrieve(listed[0]).id, listed[0], "the model that is retrieved")


@check
def a_whole_answer():
    answer = ask("m-plain")
    choice = answer.choices[0]
    equal((choice.message.role, choice.message.content, choice.finish_reason), ("assistant", WHOLE, "stop"))
    equal((answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens), (12, 20, 32))
    equal((answer.object, answer.model), ("chat.completion", "m-plain"))


@check
def three_spellings_of_a_model_are_served_by_the_same_one():
    for name in ["m-plain", "openai:m-plain", "openai/m-plain"]:
        _, headers = with_header(name, [user("hi")])
        equal(headers["x-piton-served-by"], "openai:m-plain", name)


@check
def a_streamed_answer_with_usage():
    stream = streamed("m-plain").whole()
    equal((stream.text, stream.finishes), (DELTAS, ["stop"]))
    equal([usage.total_tokens for usage in stream.usages], [32], "the totals of usage")


@check
def a_streamed_answer_without_usage():
    more = {"model": "m-plain", "messages": [user("hi")], "stream": True}
    stream = Streamed(client.chat.completions.create(**more)).whole()
    equal((stream.text, stream.usages), (DELTAS, []))


@check
def the_stream_helper_puts_the_answer_together():
    with client.chat.completions.stream(
        model="m-tool", messages=[user("hi")], tools=[WEATHER, TIME], stream_options={"include_usage": True}
    ) as stream:
        final = stream.get_final_completion()
    equal([said(call) for call in final.choices[0].message.tool_calls], [PARIS, UTC], "the calls")
    equal((final.choices[0].finish_reason, final.usage.total_tokens), ("tool_calls", 32))


@check
def the_asynchronous_client_streams_many_at_once():
    async def one(asynchronous):
        stream = await asynchronous.chat.completions.create(model="m-plain", messages=[user("hi")], stream=True)
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])

    async def many():
        async with openai.AsyncOpenAI(base_url=f"{URL}/v1", api_key=KEY, timeout=TIMEOUT) as asynchronous:
            return await asyncio.gather(*(one(asynchronous) for _ in range(16)))

    equal(asyncio.run(many()), [DELTAS] * 16)


@check
def parallel_tool_calls_whole():
    answer = ask("m-tool", tools=[WEATHER, TIME]).choices[0]
    equal([said(call) for call in answer.message.tool_calls], [PARIS, UTC], "the calls")
    equal((answer.finish_reason, answer.message.content), ("tool_calls", None))


@check
def parallel_tool_calls_streamed_with_their_pieces_mixed():
    stream = streamed("m-tool", tools=[WEATHER, TIME]).whole()
    equal((stream.calls, stream.finishes), ({0: PARIS, 1: UTC}, ["tool_calls"]))


@check
def results_of_tools_reach_the_model_as_they_were_given():
    called = ask("m-tool", tools=[WEATHER, TIME]).choices[0].message
    results = [
        {"role": "tool", "tool_call_id": "call_a", "content": "rain, 7 °C"},
        {"role": "tool", "tool_call_id": "call_b", "content": "noon"},
    ]
    for name, stream in [("m-after", False), ("m-after-streamed", True)]:
        # The SDK's own message object goes back as it came.
        more = {"model": name, "messages": [user("hi"), called, *results], "tools": [WEATHER, TIME], "stream": stream}
        answer = client.chat.completions.create(**more)
        text = Streamed(answer).whole().text if stream else answer.choices[0].message.content
        equal(text, DELTAS if stream else WHOLE)
        sent = body_of(name)["messages"]
        equal([message["role"] for message in sent], ["user", "assistant", "tool", "tool"], "the roles")
        calls = [{"id": call["id"], **call["function"]} for call in sent[1]["tool_calls"]]
        equal(calls, [PARIS, UTC], "the calls that were sent back")
        equal([(m["tool_call_id"], m["content"]) for m in sent[2:]], [("call_a", "rain, 7 °C"), ("call_b", "noon")])


@check
def pieces_of_calls_that_may_belong_to_two_are_no_calls():
    stream = streamed("m-tool-noindex", tools=[WEATHER, TIME])
    if stream.error is None:
        equal((stream.calls, stream.finishes), ({0: PARIS, 1: UTC}, ["tool_calls"]))
    else:
        equal(stream.finishes, [], "the finish reasons before the error")


@check
def a_wrong_key_is_an_authentication_error():
    for stream in [False, True]:
        call = lambda: with_key("wrong").chat.completions.create(model="m-plain", messages=[user("hi")], stream=stream)
        error = raised(openai.AuthenticationError, call)
        equal((error.status_code, error.code), (401, "unauthorized"))
    raised(openai.AuthenticationError, lambda: with_key("wrong").models.list())


@check
def a_reader_may_list_models_and_not_ask_one():
    reader = with_key(os.environ["READER_KEY"])
    assert reader.models.list().data
    error = raised(
        openai.PermissionDeniedError, lambda: reader.chat.completions.create(model="m-plain", messages=[user("hi")])
    )
    equal((error.status_code, error.code), (403, "forbidden"))


@check
def an_unknown_provider_is_refused_before_anybody_is_asked():
    before = get("/__stats", MOCK_URL)
    # Misspelt; known but without a key here.
    refused = [
        ("opnai", openai.BadRequestError, "invalid_model"),
        ("anthropic", openai.InternalServerError, "route_unconfigured"),
        ("deepseek", openai.InternalServerError, "route_unconfigured"),
    ]
    for provider, kind, code in refused:
        error = raised(kind, lambda: ask(f"{provider}:m-plain"))
        equal(error.code, code, provider)
        assert provider in error.message, error.message
    equal(get("/__stats", MOCK_URL), before, "what the mock has seen")


@check
def a_bad_request_names_the_field():
    for field, value in [("temperature", "hot"), ("n", 2), ("max_tokens", 0), ("stop", ["x"] * 500)]:
        error = raised(openai.BadRequestError, lambda: ask("m-plain", extra_body={field: value}))
        equal((error.status_code, error.type, error.param), (400, "invalid_request_error", field), field)
    stray = [user("hi"), {"role": "tool", "tool_call_id": "nobody", "content": "x"}]
    error = raised(
        openai.BadRequestError, lambda: client.chat.completions.create(model="m-plain", messages=stray)
    )
    assert error.param.startswith("messages[1]"), error.param


@check
def parameters_reach_the_provider_and_the_callers_key_does_not():
    more = {"temperature": 0.25, "seed": 7, "stop": ["END"], "max_completion_tokens": 99, "user": "u-1"}
    ask("m-parameters", **more, extra_body={"a_field_of_tomorrow": {"a": 1}})
    sent = body_of("m-parameters")
    for field in ["temperature", "seed", "stop"]:
        equal(sent.get(field), more[field], field)
    equal(sent.get("max_completion_tokens", sent.get("max_tokens")), 99, "the most output")
    keys = {key.split(" ")[1] for key in get("/__stats", MOCK_URL)}
    equal(keys, {"key=dummy"}, "the keys that the provider saw")


@check
def the_providers_401_is_not_the_callers():
    for stream in [False, True]:
        reset_mock()
        # The provider says that the key is none: nobody asks with it again until somebody revives it.
        for _ in range(2):
            error = raised(openai.InternalServerError, lambda: ask("m-401", stream=stream))
            equal((error.status_code, error.code), (502, "providers_exhausted"))
        equal(len(hits("m-401")), 1, "the calls at the provider")
        revive()
        equal(ask("m-plain").choices[0].message.content, WHOLE)


@check
def a_rate_limit_that_passes_is_waited_for_by_the_node():
    # The SDK may not repeat here: it would hide a node that does not.
    once = client.with_options(max_retries=0)
    for stream in [False, True]:
        reset_mock()
        answer = once.chat.completions.create(model="m-flaky2", messages=[user("hi")], stream=stream)
        text = Streamed(answer).whole().text if stream else answer.choices[0].message.content
        equal(text, DELTAS if stream else WHOLE)
        equal(len(hits("m-flaky2")), 3, "the calls at the provider")


@check
def a_rate_limit_that_stays_is_a_rate_limit_error():
    # As often as the rules grant; a caller is told when to come back, which the SDK would.
    once = narrow.with_options(max_retries=0)
    error = raised(
        openai.RateLimitError, lambda: once.chat.completions.create(model="m-429-ra1", messages=[user("hi")])
    )
    equal((error.status_code, error.response.headers["x-should-retry"]), (429, "true"))
    assert float(error.response.headers["retry-after"]) > 0
    equal(len(hits("m-429-ra1")), 21, "the calls at the provider")


@check
def a_node_without_room_says_so_and_the_sdk_comes_back():
    slow = threading.Thread(
        target=lambda: narrow.chat.completions.create(model="m-slow3000", messages=[user("hi")])
    )
    slow.start()
    awaited("the slow run is at work", lambda: hits("m-slow3000"))
    hasty = narrow.with_options(max_retries=0)
    error = raised(openai.RateLimitError, lambda: hasty.chat.completions.create(model="m-plain", messages=[user("hi")]))
    equal((error.code, error.response.headers["x-should-retry"]), ("too_many_runs", "true"))
    assert float(error.response.headers["retry-after"]) > 0
    patient = narrow.with_options(max_retries=20)
    answer = patient.chat.completions.create(model="m-plain", messages=[user("hi")])
    equal(answer.choices[0].message.content, WHOLE)
    slow.join()


@check
def a_provider_that_fails_is_an_api_error_and_is_not_asked_again_by_the_sdk():
    for model, streams in [("m-500", [False, True]), ("m-cut0", [True])]:
        for stream in streams:
            reset_mock()
            error = raised(openai.InternalServerError, lambda: ask(model, stream=stream))
            equal((error.status_code, error.code), (502, "providers_exhausted"), model)
            equal(len(hits(model)), 3, f"the calls of {model} at the provider")


@check
def a_stream_that_is_cut_raises_and_does_not_end_as_if_done():
    cut = [
        ("m-cut", "tok0 tok1 tok2 tok3 tok4 ", "providers_exhausted"),
        ("m-errmid", "tok0 tok1 tok2 ", "rate_limit_exceeded"),
    ]
    for model, text, code in cut:
        stream = streamed(model)
        assert stream.error is not None, f"{model} ended with {stream.finishes}"
        equal((stream.text, stream.finishes, stream.usages), (text, [], []), model)
        equal(stream.error.code, code, f"the code of {model}")


@check
def an_answer_without_choices_is_an_error():
    raised(openai.InternalServerError, lambda: ask("m-emptychoices"))


@check
def an_answer_without_content_is_an_empty_text():
    answer = ask("m-nullcontent").choices[0]
    equal((answer.message.content or "", answer.message.tool_calls, answer.finish_reason), ("", None, "stop"))


@check
def characters_that_were_cut_into_bytes_come_whole():
    stream = streamed("m-utf8").whole()
    equal(stream.text, "héllo 日本語 🦀🚀👩\u200d👩\u200d👧 fin")


@check
def a_streamed_text_is_the_text_of_the_journal():
    stream = client.chat.completions.create(model="m-utf8", messages=[user("hi")], stream=True)
    first = next(iter(stream))
    text = Streamed(stream).whole().text
    equal(get(f"/v1/runs/{run_of(first)}")["output"], text, "the run's output")


@check
def usage_that_nobody_said_is_null_and_not_zero():
    equal(ask("m-nousage").usage, None, "usage")
    equal(streamed("m-nousage").whole().usages, [], "the usages of the stream")


@check
def cached_and_reasoning_tokens_are_shown():
    whole, stream = ask("m-cached").usage, streamed("m-cached").whole().usages
    for usage in [whole, *stream]:
        details = (usage.prompt_tokens_details.cached_tokens, usage.completion_tokens_details.reasoning_tokens)
        equal((usage.prompt_tokens, *details), (1000, 900, 5))
    equal(len(stream), 1, "the usages of the stream")


@check
def usage_that_came_twice_counts_once():
    stream = client.chat.completions.create(
        model="m-usagelast", messages=[user("hi")], stream=True, stream_options={"include_usage": True}
    )
    first = next(iter(stream))
    equal([usage.total_tokens for usage in Streamed(stream).whole().usages], [32], "the usages of the stream")
    equal(get(f"/v1/runs/{run_of(first)}")["usage"]["prompt_tokens"], 12, "the run's prompt tokens")


@check
def a_session_goes_on_and_guards_its_history():
    name = f"python-{os.getpid()}"
    one, headers = with_header("m-session", [user("one")], x_piton_session_id=name)
    session = headers["x-piton-session-id"]
    history = [user("one"), one.choices[0].message, user("two")]
    two, headers = with_header("m-session", history, x_piton_session_id=name)
    equal(headers["x-piton-session-id"], session, "the session of the second turn")
    equal([m["content"] for m in body_of("m-session")["messages"]], ["one", WHOLE, "two"], "what the provider saw")
    kept = get(f"/v1/sessions/{session}/messages")
    equal([m["role"] for m in kept["data"]], ["user", "assistant"] * 2, "the roles of the session")

    changed = [user("ONE"), one.choices[0].message, user("two"), two.choices[0].message, user("three")]
    before = len(hits("m-session"))
    error = raised(openai.ConflictError, lambda: with_header("m-session", changed, x_piton_session_id=name))
    equal((error.code, error.param), ("history_mismatch", "messages[0]"))
    equal(len(hits("m-session")), before, "the calls at the provider")
    _, headers = with_header("m-session", changed, x_piton_session_id=name, x_piton_history="fork")
    assert headers["x-piton-session-id"] != session, "the fork has the session's own id"


@check
def headers_tell_which_run_answered():
    answer, headers = with_header("m-plain", [user("hi")], x_request_id="mine-1")
    equal((headers["x-request-id"], headers["x-piton-run-id"]), ("mine-1", run_of(answer)))
    equal(answer._request_id, "mine-1", "the SDK's request id")
    raw = client.chat.completions.with_raw_response.create(model="m-plain", messages=[user("hi")], stream=True)
    assert raw.headers["x-request-id"] and raw.headers["x-piton-run-id"].startswith("run_"), raw.headers
    Streamed(raw.parse()).whole()


@check
def an_error_tells_which_run_failed():
    error = raised(openai.InternalServerError, lambda: ask("m-500"))
    assert error.request_id, "there is no x-request-id"
    run = error.response.headers.get("x-piton-run-id")
    assert run, f"there is no x-piton-run-id in {dict(error.response.headers)}"
    equal(get(f"/v1/runs/{run}")["outcome"], "errored")


@check
def an_idempotency_key_asks_once():
    key, before = f"python-{os.getpid()}", len(hits("m-once"))
    first, _ = with_header("m-once", [user("hi")], idempotency_key=key)
    again, _ = with_header("m-once", [user("hi")], idempotency_key=key)
    equal((again.id, again.choices[0].message.content), (first.id, WHOLE))
    equal(len(hits("m-once")) - before, 1, "the calls at the provider")
    error = raised(openai.ConflictError, lambda: with_header("m-once", [user("other")], idempotency_key=key))
    equal(error.code, "idempotency_key_conflict")


@check
def an_idempotency_key_asks_once_in_a_session_too():
    names = {"idempotency_key": f"python-{os.getpid()}-bound", "x_piton_session_id": f"python-{os.getpid()}-once"}
    before = len(hits("m-once"))
    first, _ = with_header("m-once", [user("hi")], **names)
    again, _ = with_header("m-once", [user("hi")], **names)
    equal((again.id, len(hits("m-once")) - before), (first.id, 1), "the run that answers and the calls at the provider")


@check
def a_repeat_after_a_time_out_is_not_said_twice_in_a_session():
    # The SDK gives up after a second and repeats by itself while the run is still at work.
    headers = {"x-piton-session-id": f"python-{os.getpid()}-late"}
    hasty = client.with_options(timeout=1, max_retries=2)
    try:
        hasty.chat.completions.create(model="m-slow2600", messages=[user("only once")], extra_headers=headers)
    except openai.APIError:
        pass  # Whether the repeat is answered or refused is the node's choice.
    at_work = lambda: [run for run in get("/v1/runs?limit=20")["data"] if run["model"] == "openai:m-slow2600"]
    awaited("its runs have ended", lambda: all(run["outcome"] for run in at_work()))
    kept = get(f"/v1/sessions/{at_work()[0]['session_id']}/messages")["data"]
    equal([message["role"] for message in kept], ["user", "assistant"], "the roles of the session")


@check
def a_caller_who_leaves_does_not_end_the_run():
    stream = client.chat.completions.create(model="m-plain", messages=[user("hi")], stream=True)
    run = run_of(next(iter(stream)))
    stream.close()
    ended = awaited("the run has ended", lambda: get(f"/v1/runs/{run}")["outcome"] and get(f"/v1/runs/{run}"))
    equal((ended["outcome"], ended["output"]), ("completed", DELTAS))


def events(commit):
    return [entry["name"] for entry in commit["entries"]]


@check
def the_intent_is_in_the_journal_while_the_provider_still_thinks():
    answers = []
    slow = threading.Thread(target=lambda: answers.append(ask("m-slow2500")))
    slow.start()
    awaited("the mock was asked", lambda: hits("m-slow2500"))

    def listed():
        return [run["id"] for run in get("/v1/runs?limit=50")["data"] if run["model"] == "openai:m-slow2500"]

    at_work = awaited("the list has the run", listed)
    equal(len(at_work), 1, "the number of runs that are listed")
    seen = [name for commit in get(f"/v1/runs/{at_work[0]}/journal") for name in events(commit)]
    assert not answers, "the answer came before the look: the check says nothing"
    equal(seen, ["queued", "started", "model_asked"], "the events before the answer")
    slow.join()
    equal(run_of(answers[0]), at_work[0], "the run that answered")


@check
def the_journals_intent_is_older_than_the_mocks_receipt():
    # The mock's clock counts from its start; a call of our own, between two looks at ours, says when that was.
    before = time.time() * 1000
    request = urllib.request.Request(f"{MOCK_URL}/v1/chat/completions", data=b'{"model":"m-clock","messages":[]}')
    urllib.request.urlopen(request, timeout=TIMEOUT).read()
    after = time.time() * 1000
    [tick] = hits("m-clock")
    answer = ask("m-order")
    [received] = hits("m-order")
    earliest, latest = received - tick - 1 + before, received - tick + 1 + after
    asked, answered = get(f"/v1/runs/{run_of(answer)}/journal")
    assert "model_asked" in events(asked) and "model_answered" in events(answered), (events(asked), events(answered))
    assert position(asked) < position(answered), "the intent stands behind the answer"
    at = lambda commit: datetime.datetime.fromisoformat(commit["at"]).timestamp() * 1000
    assert at(asked) < latest, f"the intent is {at(asked) - latest:.1f} ms younger than the receipt"
    assert at(answered) > earliest, f"the answer is {earliest - at(answered):.1f} ms older than the receipt"


def position(commit):
    shard, sequence = commit["position"].split(".")
    return int(shard), int(sequence)


if __name__ == "__main__":
    main()
