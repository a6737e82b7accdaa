"""Pydantic AI at the three doors, in front of the demo's script and the mock: its agent runs the tools by itself."""

import asyncio

import anthropic
import openai
import pydantic
from pydantic_ai import Agent, PartDeltaEvent, ToolOutput, UsageLimits
from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError, UsageLimitExceeded
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from nodes import ATTEMPTS, DELTAS, DEMO, MOCK, NARROW, NEW, SIGN, hits_of, no_room, says
from report import TIMEOUT, check, equal, main, raised


def by_openai(node, retries):
    sdk = openai.AsyncOpenAI(base_url=node.v1, api_key=node.key, timeout=TIMEOUT, max_retries=retries)
    return OpenAIProvider(openai_client=sdk)


def chat(name, node, retries):
    return OpenAIChatModel(name, provider=by_openai(node, retries))


def responses(name, node, retries):
    return OpenAIResponsesModel(name, provider=by_openai(node, retries))


def messages(name, node, retries):
    sdk = anthropic.AsyncAnthropic(base_url=node.url, api_key=node.key, timeout=TIMEOUT, max_retries=retries)
    return AnthropicModel(name, provider=AnthropicProvider(anthropic_client=sdk))


DOORS = [chat, responses, messages]
# One for all, since agents of one door share their connections.
LOOP = asyncio.new_event_loop()


def agent(door, node=DEMO, name="demo", again=0, **more):
    return Agent(door(name, node, again), **more)


def ask(asked, text, **more):
    """One run of an agent, whole."""
    return LOOP.run_until_complete(asked.run(text, **more))


def streamed(asked, text, **more):
    """One run of an agent whose answers are streamed: what it says last, and the number of pieces."""
    pieces = []

    async def read(_, events):
        async for event in events:
            if isinstance(event, PartDeltaEvent):
                pieces.append(event.delta)

    said = LOOP.run_until_complete(asked.run(text, event_stream_handler=read, **more))
    return said.output, len(pieces)


def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"rain in {city}"


class Weather(pydantic.BaseModel):
    city: str
    degrees: float


@check
def whole_and_streamed_answers_are_the_same():
    for door in DOORS:
        whole, (stream, pieces) = ask(agent(door), "hello there"), streamed(agent(door), "hello there")
        assert whole.output.startswith(says("hello there")), whole
        equal(stream, whole.output, door.__name__)
        assert pieces > 5, (door.__name__, pieces)
        assert whole.usage.input_tokens > 0 and whole.usage.output_tokens > 0, whole.usage


@check
def an_agent_runs_its_tool_and_the_answer_has_the_result():
    for door in DOORS:
        asked = agent(door, tools=[get_weather])
        text = 'tool get_weather {"city": "Paris"}'
        result = ask(asked, text)
        equal(result.output, f"{SIGN}The tool get_weather answers: rain in Paris", door.__name__)
        equal(len(result.all_messages()), 4, "request, call, result, answer")
        equal(streamed(asked, text)[0], result.output, f"{door.__name__}, streamed")


@check
def a_conversation_goes_on():
    for door in DOORS:
        asked = agent(door, tools=[get_weather])
        first = ask(asked, 'tool get_weather {"city": "Paris"}')
        again = LOOP.run_until_complete(asked.run("bye", message_history=first.all_messages()))
        assert again.output.startswith(says("bye")), again.output


@check
def parallel_calls_whose_pieces_come_mixed_are_kept_apart():
    for door in DOORS:
        for asks in [ask, streamed]:
            calls = []

            def get_weather(city: str) -> str:
                calls.append(("get_weather", city))
                return "rain"

            def get_time(tz: str) -> str:
                calls.append(("get_time", tz))
                return "noon"

            # The mock would call for ever.
            asked = agent(door, MOCK, "m-tool", tools=[get_weather, get_time])
            raised(UsageLimitExceeded, lambda: asks(asked, "hi", usage_limits=UsageLimits(request_limit=1)))
            equal(sorted(calls), [("get_time", "UTC"), ("get_weather", "Paris")], door.__name__)


@check
def an_answer_has_the_asked_shape():
    for door in DOORS:
        asked = agent(door, output_type=ToolOutput(Weather, name="weather"))
        equal(ask(asked, 'tool weather {"city": "Paris", "degrees": 7.5}').output, Weather(city="Paris", degrees=7.5))


@check
def errors_are_those_of_the_framework():
    for door in DOORS:
        name = door.__name__
        wrong = agent(door, DEMO._replace(key="wrong"))
        equal(raised(ModelHTTPError, lambda: ask(wrong, "hi")).status_code, 401, name)
        equal(raised(ModelHTTPError, lambda: ask(agent(door, MOCK, "opnai:demo"), "hi")).status_code, 400, name)
        equal(raised(ModelHTTPError, lambda: ask(agent(door), f"fail 401 {name} {NEW}")).status_code, 502, name)


@check
def a_stream_that_breaks_raises():
    for door in DOORS:
        kinds = (ModelAPIError, openai.APIError, anthropic.APIError)
        error = raised(kinds, lambda: streamed(agent(door), f"fail cut {door.__name__} {NEW}"))
        assert "stream_truncated" in str(error), error


@check
def a_node_without_room_is_tried_again():
    for door in DOORS:
        with no_room():
            error = raised(ModelHTTPError, lambda: ask(agent(door, NARROW, "m-plain"), "hi"))
            equal(error.status_code, 429, door.__name__)
            said, _ = streamed(agent(door, NARROW, "m-plain", again=20), "hi")
        equal(said, DELTAS, door.__name__)


@check
def a_provider_that_fails_is_not_asked_again_by_the_client():
    for door in DOORS:
        fails = lambda: raised(ModelHTTPError, lambda: ask(agent(door, MOCK, "m-500", again=2), "hi"))
        equal(hits_of("m-500", fails), ATTEMPTS, f"the calls at the provider by {door.__name__}")


if __name__ == "__main__":
    main()
