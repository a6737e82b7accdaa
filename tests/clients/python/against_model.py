"""OpenAI's Python SDK against a node in front of a genuine llama.cpp server. The model is small: the wire is judged,
not the words, and few tokens are asked for, since a busy machine makes two in a second."""

import concurrent.futures
import os
import typing

import openai
import pydantic

from completions import WEATHER, Streamed, ask, client, run_of, streamed
from report import awaited, check, equal, get, main, raised, user

MODEL = "llamacpp:gemma"
FEW = {"max_tokens": 8, "temperature": 0}
# Characters of one to four bytes, and one of several parts: more bytes than tokens, so that tokens cut characters.
WIDE = "é日本語🦀👩\u200d👧"


def schema(properties):
    """A response format that admits only these properties, so that even this model keeps to it."""
    shape = {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}
    return {"type": "json_schema", "json_schema": {"name": "shape", "strict": True, "schema": shape}}


@check
def three_spellings_of_a_model_are_served_by_the_same_one():
    for name in ["gemma", "llamacpp:gemma", "llamacpp/gemma"]:
        raw = client.chat.completions.with_raw_response.create(model=name, messages=[user("hi")], max_tokens=1)
        equal(raw.headers["x-piton-served-by"], "llamacpp:gemma", name)
        equal(raw.headers["x-piton-run-id"], run_of(raw.parse()), name)


@check
def a_whole_answer_that_reaches_its_bound():
    answer = ask(MODEL, **FEW)
    choice, usage = answer.choices[0], answer.usage
    equal((choice.message.role, choice.finish_reason), ("assistant", "length"))
    assert choice.message.content, "there is no text"
    assert usage.prompt_tokens > 0, usage
    equal((usage.completion_tokens, usage.total_tokens), (8, usage.prompt_tokens + 8), "usage")


@check
def a_streamed_answer_is_the_one_of_the_journal():
    stream = client.chat.completions.create(
        model=MODEL, messages=[user("hi")], stream=True, stream_options={"include_usage": True}, **FEW
    )
    run = run_of(next(iter(stream)))
    rest = Streamed(stream).whole()
    equal(rest.finishes, ["length"])
    equal([usage.completion_tokens for usage in rest.usages], [8], "the usages")
    ended = get(f"/v1/runs/{run}")
    equal((ended["output"], ended["usage"]["completion_tokens"]), (rest.text, 8), "the run's output and usage")


class Shape(pydantic.BaseModel):
    colour: typing.Literal["red", "green"]
    sure: bool


@check
def a_structured_answer_parses_whole_and_streamed():
    more = {"model": MODEL, "messages": [user("hi")], "response_format": Shape, "max_tokens": 64, "temperature": 0}
    whole = client.chat.completions.parse(**more)
    with client.chat.completions.stream(**more, stream_options={"include_usage": True}) as stream:
        streamed = stream.get_final_completion()
    for answer in [whole, streamed]:
        equal(answer.choices[0].finish_reason, "stop")
        assert isinstance(answer.choices[0].message.parsed, Shape), answer
        assert answer.usage.completion_tokens > 0, answer.usage


@check
def an_answer_that_is_cut_short_is_no_structured_one():
    more = {"messages": [user("hi")], "response_format": Shape, **FEW}
    raised(openai.LengthFinishReasonError, lambda: client.chat.completions.parse(model=MODEL, **{**more, "max_tokens": 2}))


@check
def characters_that_tokens_cut_come_whole():
    shape = schema({"text": {"type": "string", "enum": [WIDE]}})
    stream = streamed(MODEL, response_format=shape, max_tokens=96, temperature=0).whole()
    equal(stream.finishes, ["stop"])
    assert WIDE in stream.text and "\ufffd" not in stream.text, stream.text


@check
def a_history_with_results_of_tools_is_taken():
    call = {"id": "call_a", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'}}
    messages = [
        user("What is the weather in Paris?"),
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_a", "content": "rain"},
    ]
    for stream in [False, True]:
        answer = client.chat.completions.create(model=MODEL, messages=messages, tools=[WEATHER], stream=stream, **FEW)
        finish = Streamed(answer).whole().finishes[0] if stream else answer.choices[0].finish_reason
        assert finish in ("stop", "length", "tool_calls"), finish


@check
def a_prompt_that_is_too_long_is_a_bad_request():
    for stream in [False, True]:
        error = raised(openai.BadRequestError, lambda: ask(MODEL, "word " * 9000, stream=stream, **FEW))
        equal(error.status_code, 400)
        assert "context" in error.message, error.message


@check
def a_session_goes_on():
    headers = {"x-piton-session-id": f"python-{os.getpid()}"}
    messages = [user("one")]
    for turn in ["two", "three"]:
        answer = client.chat.completions.create(model=MODEL, messages=messages, extra_headers=headers, **FEW)
        messages += [answer.choices[0].message, user(turn)]
    changed = [user("ONE"), *messages[1:]]
    error = raised(
        openai.ConflictError,
        lambda: client.chat.completions.create(model=MODEL, messages=changed, extra_headers=headers, **FEW),
    )
    equal(error.code, "history_mismatch")


@check
def more_callers_than_the_model_has_places_are_all_answered():
    with concurrent.futures.ThreadPoolExecutor() as pool:
        answers = list(pool.map(lambda i: streamed(MODEL, f"caller {i}", **FEW).whole(), range(4)))
    equal([stream.finishes for stream in answers], [["length"]] * 4)


@check
def the_intent_is_in_the_journal_when_the_first_word_comes_and_a_caller_may_leave():
    stream = client.chat.completions.create(
        model=MODEL, messages=[user("hi")], stream=True, max_tokens=24, temperature=0
    )
    run = run_of(next(iter(stream)))
    commits = get(f"/v1/runs/{run}/journal")
    seen = [entry["name"] for commit in commits for entry in commit["entries"]]
    equal(seen, ["queued", "started", "model_asked"], "the events at the first word")
    stream.close()
    ended = awaited("the run has ended", lambda: get(f"/v1/runs/{run}")["outcome"] and get(f"/v1/runs/{run}"))
    equal((ended["outcome"], ended["usage"]["completion_tokens"]), ("completed", 24))


if __name__ == "__main__":
    main()
