"""LiteLLM's client at the three doors, in front of the demo's script and the mock."""

import os

# It would fetch its table of prices otherwise.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm

from nodes import ATTEMPTS, DELTAS, DEMO, MOCK, NARROW, NEW, SIGN, hits_of, no_room, says
from report import TIMEOUT, check, equal, main, raised, user

litellm.suppress_debug_info = True

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
TIME = {"type": "function", "function": {**WEATHER["function"], "name": "get_time"}}
# The names that LiteLLM gives to the families, and what each takes as its base.
FAMILIES = {"openai": lambda node: node.v1, "anthropic": lambda node: node.url}


def at(family, node, **more):
    """The arguments that bring a call to a node."""
    return {"api_base": FAMILIES[family](node), "api_key": node.key, "timeout": TIMEOUT, "max_retries": 0, **more}


def ask(family, messages, node=DEMO, model="demo", **more):
    messages = [user(messages)] if isinstance(messages, str) else messages
    return litellm.completion(model=f"{family}/{model}", messages=messages, **at(family, node, **more))


def streamed(*given, **more):
    """A stream, put together by LiteLLM's own builder, and how many pieces it had."""
    chunks = list(ask(*given, stream=True, stream_options={"include_usage": True}, **more))
    return litellm.stream_chunk_builder(chunks), len(chunks)


@check
def whole_and_streamed_answers_are_the_same():
    for family in FAMILIES:
        whole, (stream, pieces) = ask(family, "hello there"), streamed(family, "hello there")
        assert whole.choices[0].message.content.startswith(says("hello there")), whole
        equal(stream.choices[0].message.content, whole.choices[0].message.content, family)
        equal(stream.choices[0].finish_reason, "stop", family)
        for field in ["prompt_tokens", "completion_tokens"]:
            equal(stream.usage[field], whole.usage[field], f"{field} of {family}")
        assert pieces > 5, pieces


@check
def a_tool_call_goes_round():
    for family in FAMILIES:
        for stream in [False, True]:
            messages = [user('tool get_weather {"city": "Paris"}')]
            more = {"tools": [WEATHER]}
            said = streamed(family, messages, **more)[0] if stream else ask(family, messages, **more)
            choice = said.choices[0]
            [call] = choice.message.tool_calls
            equal((choice.finish_reason, call.function.name), ("tool_calls", "get_weather"), family)
            result = {"role": "tool", "tool_call_id": call.id, "content": "rain"}
            answer = ask(family, [*messages, choice.message, result], **more)
            equal(answer.choices[0].message.content, f"{SIGN}The tool get_weather answers: rain", family)


@check
def parallel_calls_whose_pieces_come_mixed_are_kept_apart():
    for family in FAMILIES:
        more = {"node": MOCK, "model": "m-tool", "tools": [WEATHER, TIME]}
        for said in [ask(family, "hi", **more), streamed(family, "hi", **more)[0]]:
            calls = [(call.function.name, call.function.arguments.replace(" ", ""))
                     for call in said.choices[0].message.tool_calls]
            equal(calls, [("get_weather", '{"city":"Paris"}'), ("get_time", '{"tz":"UTC"}')], family)


@check
def responses_go_on_from_one_another():
    more = at("openai", DEMO)
    first = litellm.responses(model="openai/demo", input="hello", **more)
    assert first.output_text.startswith(says("hello")), first.output_text
    tool = {"type": "function", **WEATHER["function"]}
    called = litellm.responses(model="openai/demo", input='tool get_weather {"city": "Paris"}', tools=[tool],
                               previous_response_id=first.id, **more)
    [call] = [item for item in called.output if item.type == "function_call"]
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "rain"}
    events = list(litellm.responses(model="openai/demo", input=[result], tools=[tool], stream=True,
                                    previous_response_id=called.id, **more))
    equal("".join(event.delta for event in events if event.type == "response.output_text.delta"),
          f"{SIGN}The tool get_weather answers: rain")
    equal(events[-1].type, "response.completed")


@check
def errors_are_those_of_the_client():
    for family in FAMILIES:
        raised(litellm.AuthenticationError, lambda: ask(family, "hi", api_key="wrong"))
        error = raised(litellm.BadRequestError, lambda: ask(family, "hi", node=MOCK, model="opnai:demo"))
        assert "opnai" in str(error), error
        error = raised(litellm.BadGatewayError, lambda: ask(family, f"fail 401 {family} {NEW}"))
        assert "auth_invalid" in str(error), error


@check
def a_stream_that_breaks_raises():
    for family in FAMILIES:
        error = raised(litellm.ServiceUnavailableError, lambda: streamed(family, f"fail cut {family} {NEW}"))
        assert "stream_truncated" in str(error), error
        whole = ask(family, f"fail cut {family} {NEW} whole").choices[0].message.content
        equal(whole, f"{SIGN}After 2 calls that failed (cut), this one succeeds.", family)


@check
def a_node_without_room_is_tried_again():
    retrying = {"openai": {"max_retries": 20}, "anthropic": {"num_retries": 20, "retry_strategy": "exponential_backoff_retry"}}
    for family in FAMILIES:
        with no_room():
            raised(litellm.RateLimitError, lambda: ask(family, "hi", node=NARROW, model="m-plain"))
            said = list(ask(family, "hi", node=NARROW, model="m-plain", stream=True, **retrying[family]))
        equal("".join(chunk.choices[0].delta.content or "" for chunk in said), DELTAS, family)


@check
def a_provider_that_fails_is_not_asked_again_by_the_client():
    fails = lambda: raised(litellm.BadGatewayError, lambda: ask("openai", "hi", node=MOCK, model="m-500", max_retries=2))
    equal(hits_of("m-500", fails), ATTEMPTS, "the calls at the provider")


if __name__ == "__main__":
    main()
