"""Anthropic's Python SDK at `/v1/messages`, in front of models of another family: the demo's script, and the mock."""

import os

import anthropic

from report import KEY, TIMEOUT, URL, check, equal, get, main, raised, user

SIGN = "[scripted demo] "
DELTAS = "".join(f"tok{i} " for i in range(20))
TOOLS = [
    {"name": name, "input_schema": {"type": "object", "properties": {field: {"type": "string"}}}}
    for name, field in [("get_weather", "city"), ("get_time", "tz")]
]

client = anthropic.Anthropic(base_url=URL, api_key=KEY, timeout=TIMEOUT)
# The nodes in front of the mock; the second has short pauses between its own retries.
mock = anthropic.Anthropic(base_url=os.environ["MOCK_NODE_URL"], api_key=os.environ["MOCK_NODE_KEY"], timeout=TIMEOUT)
narrow = anthropic.Anthropic(base_url=os.environ["NARROW_URL"], api_key=os.environ["NARROW_KEY"], timeout=TIMEOUT)


def ask(text, by=client, model="demo", **more):
    more.setdefault("max_tokens", 1000)
    return by.messages.create(model=model, messages=[user(text)], **more)


def result(call, content, **more):
    return user([{"type": "tool_result", "tool_use_id": call.id, "content": content, **more}])


def calls(message):
    return [(block.name, block.input) for block in message.content if block.type == "tool_use"]


@check
def both_generations_of_keys_open_the_door():
    bearer = anthropic.Anthropic(base_url=URL, api_key=None, auth_token=KEY, timeout=TIMEOUT)
    for by in [client, bearer]:
        answer = ask("hello", by)
        equal((answer.role, answer.stop_reason, answer.type), ("assistant", "end_turn", "message"))
        assert answer.content[0].text.startswith(SIGN) and answer.usage.output_tokens > 0, answer
        equal(get(f"/v1/runs/{answer.id.removeprefix('msg_')}")["status"], "completed", "the run")


@check
def a_stream_comes_word_by_word_and_says_the_same():
    with client.messages.stream(model="demo", max_tokens=1000, messages=[user("hello there")]) as stream:
        pieces = list(stream.text_stream)
        final = stream.get_final_message()
    whole = ask("hello there")
    equal("".join(pieces), whole.content[0].text)
    assert len(pieces) > 5, pieces
    equal((final.stop_reason, final.usage.input_tokens, final.usage.output_tokens),
          (whole.stop_reason, whole.usage.input_tokens, whole.usage.output_tokens))


@check
def an_answer_that_is_cut_short_says_so():
    for stream in [False, True]:
        more = {"model": "demo", "max_tokens": 3, "messages": [user("one two three four")]}
        if stream:
            with client.messages.stream(**more) as events:
                answer = events.get_final_message()
        else:
            answer = client.messages.create(**more)
        equal(answer.stop_reason, "max_tokens", f"the reason, streamed {stream}")


@check
def a_tool_call_goes_round_and_a_failed_tool_is_told():
    for stream in [False, True]:
        messages = [user('tool get_weather {"city": "Paris"}')]
        more = {"model": "demo", "max_tokens": 1000, "messages": messages, "tools": TOOLS}
        if stream:
            with client.messages.stream(**more) as events:
                called = events.get_final_message()
        else:
            called = client.messages.create(**more)
        equal((called.stop_reason, calls(called)), ("tool_use", [("get_weather", {"city": "Paris"})]))
        [call] = [block for block in called.content if block.type == "tool_use"]
        said = {"role": "assistant", "content": called.content}
        for sent, then in [(result(call, "rain"), "answers: rain"), (result(call, "no", is_error=True), '"message":"no"')]:
            answer = client.messages.create(**{**more, "messages": [*messages, said, sent]})
            assert then in answer.content[0].text, answer.content[0].text


@check
def a_call_in_a_session_is_answered_into_the_same_run():
    headers = {"x-piton-session-id": f"anthropic-{os.getpid()}"}
    messages = [user('tool get_weather { "city" : "Paris" }')]
    more = {"model": "demo", "max_tokens": 1000, "tools": TOOLS, "extra_headers": headers}
    called = client.messages.create(messages=messages, **more)
    [call] = [block for block in called.content if block.type == "tool_use"]
    messages += [{"role": "assistant", "content": called.content}, result(call, "rain")]
    answer = client.messages.create(messages=messages, **more)
    equal(answer.id, called.id, "the run that answers")
    messages += [{"role": "assistant", "content": answer.content}, user("bye")]
    assert "bye" in client.messages.create(messages=messages, **more).content[0].text


@check
def parallel_calls_whose_pieces_come_mixed_are_kept_apart():
    wanted = [("get_weather", {"city": "Paris"}), ("get_time", {"tz": "UTC"})]
    equal(calls(ask("hi", mock, "m-tool", tools=TOOLS)), wanted, "the calls, whole")
    with mock.messages.stream(model="m-tool", max_tokens=99, messages=[user("hi")], tools=TOOLS) as stream:
        equal(calls(stream.get_final_message()), wanted, "the calls, streamed")
    with mock.messages.stream(model="m-plain", max_tokens=99, messages=[user("hi")]) as stream:
        equal("".join(stream.text_stream), DELTAS)


@check
def tokens_are_counted_from_above():
    count = client.messages.count_tokens(model="demo", messages=[user("hello")], tools=TOOLS)
    assert count.input_tokens >= ask("hello", tools=TOOLS).usage.input_tokens, count


@check
def errors_are_those_of_the_sdk():
    wrong = anthropic.Anthropic(base_url=URL, api_key="wrong", timeout=TIMEOUT)
    error = raised(anthropic.AuthenticationError, lambda: ask("hi", wrong))
    equal((error.status_code, error.body["error"]["type"]), (401, "authentication_error"))
    assert error.request_id.startswith("req_"), error.request_id
    error = raised(anthropic.BadRequestError, lambda: ask("hi", extra_body={"temperature": "hot"}))
    assert "temperature" in error.message, error.message
    raised(anthropic.InternalServerError, lambda: ask("fail 401 anthropic"))
    raised(anthropic.RateLimitError, lambda: ask("hi", narrow.with_options(max_retries=0), "m-429-ra1"))


@check
def faults_of_the_provider_that_pass_are_not_seen_and_a_stream_that_breaks_raises():
    for fault in ["429", "500"]:
        said = ask(f"fail {fault} anthropic").content[0].text
        assert said.startswith(f"{SIGN}After 2 calls that failed ({fault})"), said

    def broken():
        with client.messages.stream(model="demo", max_tokens=99, messages=[user("fail cut anthropic")]) as stream:
            return stream.get_final_message()

    raised(anthropic.APIStatusError, broken)


if __name__ == "__main__":
    main()
