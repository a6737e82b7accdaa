"""Instructor at the three doors, in front of the demo's script and the mock: answers come as objects of an asked shape."""

import anthropic
import instructor
import openai
import pydantic
from instructor.core import InstructorRetryException

from nodes import ATTEMPTS, DEMO, MOCK, NARROW, NEW, hits_of, no_room
from report import TIMEOUT, body_of, check, equal, main, raised, reset_mock, user


class Weather(pydantic.BaseModel):
    """The weather."""

    city: str
    degrees: float


PARIS = {"city": "Paris", "degrees": 7.5}


def openai_sdk(node, retries):
    return openai.OpenAI(base_url=node.v1, api_key=node.key, timeout=TIMEOUT, max_retries=retries)


def chat(node, retries):
    return instructor.from_openai(openai_sdk(node, retries), mode=instructor.Mode.TOOLS)


def responses(node, retries):
    return instructor.from_openai(openai_sdk(node, retries), mode=instructor.Mode.RESPONSES_TOOLS)


def messages(node, retries):
    sdk = anthropic.Anthropic(base_url=node.url, api_key=node.key, timeout=TIMEOUT, max_retries=retries)
    return instructor.from_anthropic(sdk, mode=instructor.Mode.TOOLS)


DOORS = {chat: {}, responses: {}, messages: {"max_tokens": 1000}}
SDKS = {chat: openai, responses: openai, messages: anthropic}


def asked(door, text, node=DEMO, model="demo", retries=0):
    """The client, and the arguments of a question. Instructor asks once more when an answer has not the shape."""
    more = {"model": model, "messages": [user(text)], "response_model": Weather, **DOORS[door]}
    return door(node, retries), more


def ask(door, text, again=0, **more):
    client, arguments = asked(door, text, **more)
    return client.create(max_retries=again, **arguments)


def cause(kind, call):
    """The SDK's error behind instructor's own."""
    error = raised(InstructorRetryException, call)
    while error is not None and not isinstance(error, kind):
        error = error.__cause__ or error.__context__ or next(
            (attempt.exception for attempt in getattr(error, "failed_attempts", None) or []), None)
    assert error is not None, f"no {kind.__name__} is behind it"
    return error


@check
def an_answer_has_the_asked_shape():
    for door in DOORS:
        client, arguments = asked(door, 'tool Weather {"city": "Paris", "degrees": 7.5}')
        answer, raw = client.create_with_completion(max_retries=0, **arguments)
        equal(answer.model_dump(), PARIS, door.__name__)
        used = raw.usage.completion_tokens if door is chat else raw.usage.output_tokens
        assert used > 0, raw


@check
def an_object_grows_while_it_is_streamed():
    for door in DOORS:
        client, arguments = asked(door, 'tool PartialWeather {"city": "Paris", "degrees": 7.5}')
        seen = [(one.city, one.degrees) for one in client.create_partial(**arguments)]
        equal(seen[-1], ("Paris", 7.5), door.__name__)
        assert len(seen) > 1 and any(degrees is None for _, degrees in seen), seen


@check
def objects_come_one_by_one():
    for door in DOORS:
        tasks = '[{"city": "Paris", "degrees": 7.5}, {"city": "Rome", "degrees": 20.0}]'
        client, arguments = asked(door, f'tool IterableWeather {{"tasks": {tasks}}}')
        came = [one.model_dump() for one in client.create_iterable(**arguments)]
        equal(came, [PARIS, {"city": "Rome", "degrees": 20.0}], door.__name__)


@check
def an_answer_that_has_not_the_shape_is_told_to_the_model():
    # The mock answers with text and never with the shape, so that both questions are seen.
    for door in [chat, messages]:
        reset_mock()
        raised(InstructorRetryException, lambda: ask(door, "hi", again=1, node=MOCK, model="m-shape"))
        sent = body_of("m-shape")["messages"]
        equal([message["role"] for message in sent[:2]], ["user", "assistant"], door.__name__)
        assert len(sent) > 2 and sent[-1]["role"] in ("user", "tool"), sent


@check
def errors_are_those_of_the_sdks():
    for door, sdk in SDKS.items():
        name = door.__name__
        cause(sdk.AuthenticationError, lambda: ask(door, "hi", node=DEMO._replace(key="wrong")))
        cause(sdk.BadRequestError, lambda: ask(door, "hi", node=MOCK, model="opnai:demo"))
        cause(sdk.InternalServerError, lambda: ask(door, f"fail 401 {name} {NEW}"))
        client, arguments = asked(door, f"fail cut {name} {NEW}")
        error = raised((sdk.APIError, InstructorRetryException), lambda: list(client.create_partial(**arguments)))
        assert "stream_truncated" in str(error), error


@check
def a_node_without_room_is_tried_again():
    for door, sdk in SDKS.items():
        with no_room():
            cause(sdk.RateLimitError, lambda: ask(door, "hi", node=NARROW, model="m-plain"))
            client, arguments = asked(door, "hi", node=NARROW, model="m-plain", retries=20)
            # No shape is asked for, since the mock knows none: the SDK's own answer comes.
            said = client.create(**{**arguments, "response_model": None})
        assert "The quick brown fox" in str(said), said


@check
def a_provider_that_fails_is_not_asked_again_by_the_client():
    for door, sdk in SDKS.items():
        fails = lambda: cause(sdk.InternalServerError, lambda: ask(door, "hi", node=MOCK, model="m-500", retries=2))
        equal(hits_of("m-500", fails), ATTEMPTS, f"the calls at the provider by {door.__name__}")


if __name__ == "__main__":
    main()
