"""OpenAI's Agents SDK at `/v1/responses` and `/v1/chat/completions`, in front of the demo's script and the mock: its runner
runs the tools by itself."""

import asyncio

import openai
from agents import (
    Agent, MaxTurnsExceeded, ModelSettings, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, SQLiteSession,
    function_tool, set_tracing_disabled,
)
from openai.types.responses import ResponseTextDeltaEvent

from nodes import ATTEMPTS, DELTAS, DEMO, MOCK, NARROW, NEW, SIGN, hits_of, no_room, says
from report import TIMEOUT, check, equal, main, raised

# Traces would go to OpenAI.
set_tracing_disabled(True)
LOOP = asyncio.new_event_loop()


def chat(name, sdk):
    return OpenAIChatCompletionsModel(model=name, openai_client=sdk)


def responses(name, sdk):
    return OpenAIResponsesModel(model=name, openai_client=sdk)


DOORS = [chat, responses]


def agent(door, node=DEMO, name="demo", retries=0, **more):
    sdk = openai.AsyncOpenAI(base_url=node.v1, api_key=node.key, timeout=TIMEOUT, max_retries=retries)
    more.setdefault("model_settings", ModelSettings(include_usage=True))
    return Agent(name="matrix", model=door(name, sdk), **more)


def ask(asked, text, **more):
    return LOOP.run_until_complete(Runner.run(asked, text, **more))


def streamed(asked, text, **more):
    """A streamed run: its result, and the pieces of its text."""

    async def read():
        result = Runner.run_streamed(asked, text, **more)
        events = [event.data async for event in result.stream_events() if event.type == "raw_response_event"]
        return result, [event.delta for event in events if isinstance(event, ResponseTextDeltaEvent)]

    return LOOP.run_until_complete(read())


@function_tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"rain in {city}"


@check
def whole_and_streamed_answers_are_the_same():
    for door in DOORS:
        whole, (stream, pieces) = ask(agent(door), "hello there"), streamed(agent(door), "hello there")
        assert whole.final_output.startswith(says("hello there")), whole
        equal((stream.final_output, "".join(pieces)), (whole.final_output, whole.final_output), door.__name__)
        assert len(pieces) > 5, pieces
        used = [result.context_wrapper.usage for result in [whole, stream]]
        equal(used[1].total_tokens, used[0].total_tokens, "the tokens")
        assert used[0].total_tokens > 0, used


@check
def a_runner_runs_its_tool_and_the_answer_has_the_result():
    for door in DOORS:
        text = 'tool get_weather {"city": "Paris"}'
        for result in [ask(agent(door, tools=[get_weather]), text), streamed(agent(door, tools=[get_weather]), text)[0]]:
            equal(result.final_output, f"{SIGN}The tool get_weather answers: rain in Paris", door.__name__)
            equal(len(result.raw_responses), 2, "the calls of the model")


@check
def a_session_of_the_sdk_goes_on_and_so_does_a_stored_response():
    for door in DOORS:
        asked, session = agent(door, tools=[get_weather]), SQLiteSession("matrix")
        ask(asked, 'tool get_weather {"city": "Paris"}', session=session)
        assert ask(asked, "bye", session=session).final_output.startswith(says("bye"))
    first = ask(agent(responses, tools=[get_weather]), 'tool get_weather {"city": "Paris"}')
    again = ask(agent(responses), "bye", previous_response_id=first.last_response_id)
    assert again.final_output.startswith(says("bye")), again.final_output


@check
def parallel_calls_whose_pieces_come_mixed_are_kept_apart():
    for door in DOORS:
        for asks in [ask, streamed]:
            calls = []

            @function_tool
            def get_weather(city: str) -> str:
                calls.append(("get_weather", city))
                return "rain"

            @function_tool
            def get_time(tz: str) -> str:
                calls.append(("get_time", tz))
                return "noon"

            # The mock would call for ever.
            asked = agent(door, MOCK, "m-tool", tools=[get_weather, get_time])
            raised(MaxTurnsExceeded, lambda: asks(asked, "hi", max_turns=1))
            equal(sorted(calls), [("get_time", "UTC"), ("get_weather", "Paris")], door.__name__)


@check
def another_agent_takes_over():
    for door in DOORS:
        other = agent(door, instructions="the other")
        other.name = "other"
        result = ask(agent(door, handoffs=[other]), "tool transfer_to_other {}")
        equal(result.last_agent.name, "other", door.__name__)
        assert "transfer_to_other answers" in result.final_output, result.final_output


@check
def errors_are_those_of_the_sdk():
    for door in DOORS:
        name = door.__name__
        raised(openai.AuthenticationError, lambda: ask(agent(door, DEMO._replace(key="wrong")), "hi"))
        raised(openai.BadRequestError, lambda: ask(agent(door, MOCK, "opnai:demo"), "hi"))
        raised(openai.InternalServerError, lambda: ask(agent(door), f"fail 401 {name} {NEW}"))
        error = raised(openai.APIError, lambda: streamed(agent(door), f"fail cut {name} {NEW}"))
        assert "stream_truncated" in str(error), error


@check
def a_node_without_room_is_tried_again():
    for door in DOORS:
        with no_room():
            raised(openai.RateLimitError, lambda: ask(agent(door, NARROW, "m-plain"), "hi"))
            result, _ = streamed(agent(door, NARROW, "m-plain", retries=20), "hi")
        equal(result.final_output, DELTAS, door.__name__)


@check
def a_provider_that_fails_is_not_asked_again_by_the_client():
    for door in DOORS:
        fails = lambda: raised(openai.InternalServerError, lambda: ask(agent(door, MOCK, "m-500", retries=2), "hi"))
        equal(hits_of("m-500", fails), ATTEMPTS, f"the calls at the provider by {door.__name__}")


if __name__ == "__main__":
    main()
