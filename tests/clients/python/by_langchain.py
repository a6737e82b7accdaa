"""LangChain's models of OpenAI and Anthropic at the three doors, in front of the demo's script and the mock."""

import functools
import operator

import anthropic
import openai
import pydantic
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

from nodes import ATTEMPTS, DELTAS, DEMO, MOCK, NARROW, NEW, SIGN, hits_of, no_room, says
from report import TIMEOUT, check, equal, main, raised


def chat(node, **more):
    return ChatOpenAI(base_url=node.v1, stream_usage=True, **more)


def responses(node, **more):
    return ChatOpenAI(base_url=node.v1, use_responses_api=True, **more)


def messages(node, **more):
    return ChatAnthropic(base_url=node.url, max_tokens=1000, **more)


DOORS = [chat, responses, messages]


def model(door, node=DEMO, name="demo", **more):
    return door(node, **{"model": name, "api_key": node.key, "timeout": TIMEOUT, "max_retries": 0, **more})


@tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"rain in {city}"


@tool
def get_time(tz: str) -> str:
    """The time in a zone."""
    return f"noon in {tz}"


class Weather(pydantic.BaseModel):
    """The weather."""

    city: str
    degrees: float


def streamed(asked, text):
    """A stream as one message, and the number of its pieces."""
    pieces = list(asked.stream(text))
    return functools.reduce(operator.add, pieces), len(pieces)


@check
def whole_and_streamed_answers_are_the_same():
    for door in DOORS:
        whole, (stream, pieces) = model(door).invoke("hello there"), streamed(model(door), "hello there")
        assert whole.text.startswith(says("hello there")), whole
        equal(stream.text, whole.text, door.__name__)
        assert pieces > 5, (door.__name__, pieces)
        for field in ["input_tokens", "output_tokens", "total_tokens"]:
            equal(stream.usage_metadata[field], whole.usage_metadata[field], f"{field} of {door.__name__}")
        assert whole.usage_metadata["total_tokens"] > 0, whole.usage_metadata


@check
def a_tool_call_goes_round():
    for door in DOORS:
        for stream in [False, True]:
            asked = model(door).bind_tools([get_weather, get_time])
            question = HumanMessage('tool get_weather {"city": "Paris"}')
            called = streamed(asked, [question])[0] if stream else asked.invoke([question])
            [call] = called.tool_calls
            equal((call["name"], call["args"]), ("get_weather", {"city": "Paris"}), door.__name__)
            answer = asked.invoke([question, called, get_weather.invoke(call)])
            equal(answer.text, f"{SIGN}The tool get_weather answers: rain in Paris", door.__name__)


@check
def a_tool_that_failed_is_told():
    asked = model(messages).bind_tools([get_weather])
    question = HumanMessage('tool get_weather {"city": "Paris"}')
    called = asked.invoke([question])
    failed = ToolMessage("no such city", tool_call_id=called.tool_calls[0]["id"], status="error")
    assert '"message":"no such city"' in asked.invoke([question, called, failed]).text


@check
def parallel_calls_whose_pieces_come_mixed_are_kept_apart():
    wanted = [("get_weather", {"city": "Paris"}), ("get_time", {"tz": "UTC"})]
    for door in DOORS:
        asked = model(door, MOCK, "m-tool").bind_tools([get_weather, get_time])
        for said in [asked.invoke("hi"), streamed(asked, "hi")[0]]:
            equal([(call["name"], call["args"]) for call in said.tool_calls], wanted, door.__name__)


@check
def an_answer_has_the_asked_shape():
    for door in DOORS:
        shaped = model(door).with_structured_output(Weather, method="function_calling")
        equal(shaped.invoke('tool Weather {"city": "Paris", "degrees": 7.5}'), Weather(city="Paris", degrees=7.5))


@check
def errors_are_those_of_the_sdks():
    kinds = [(chat, openai), (responses, openai), (messages, anthropic)]
    for door, sdk in kinds:
        name = door.__name__
        raised(sdk.AuthenticationError, lambda: model(door, api_key="wrong").invoke("hi"))
        raised(sdk.BadRequestError, lambda: model(door, MOCK, "opnai:demo").invoke("hi"))
        raised(sdk.InternalServerError, lambda: model(door).invoke(f"fail 401 {name} {NEW}"))
        error = raised(sdk.APIError, lambda: streamed(model(door), f"fail cut {name} {NEW}"))
        assert "stream_truncated" in str(error), error


@check
def a_node_without_room_is_tried_again():
    kinds = [(chat, openai), (responses, openai), (messages, anthropic)]
    for door, sdk in kinds:
        with no_room():
            raised(sdk.RateLimitError, lambda: model(door, NARROW, "m-plain").invoke("hi"))
            said, _ = streamed(model(door, NARROW, "m-plain", max_retries=20), "hi")
        equal(said.text, DELTAS, door.__name__)


@check
def a_provider_that_fails_is_not_asked_again_by_the_client():
    for door, sdk in [(chat, openai), (responses, openai), (messages, anthropic)]:
        fails = lambda: raised(sdk.InternalServerError, lambda: model(door, MOCK, "m-500", max_retries=2).invoke("hi"))
        equal(hits_of("m-500", fails), ATTEMPTS, f"the calls at the provider by {door.__name__}")


if __name__ == "__main__":
    main()
