"""A genuine llama.cpp server by each of its three wires, and each wire behind each of the node's three doors. The model is
small: the wire is judged, not the words. What the server was asked is seen by the wiretap before it."""

import itertools
import os

import anthropic
import openai

from completions import Streamed, client, run_of
from report import KEY, TIMEOUT, URL, check, equal, get, main, raised, user

messages = anthropic.Anthropic(base_url=URL, api_key=KEY, timeout=TIMEOUT)

# The providers as the node has them, and the path by which each asks. The third wire takes no fewer than 16 tokens.
WIRES = {"llamacpp": "/v1/chat/completions", "vllm": "/v1/messages", "lmstudio": "/v1/responses"}
FEW = 16
# llama.cpp says `completed` at its Responses of an answer that it cut, and nothing else tells.
CUT = {"llamacpp": "length", "vllm": "length", "lmstudio": "stop"}


class Answer:
    """What a door said, in one vocabulary."""

    def __init__(self, run, text, finish, tokens, pieces=1):
        self.run, self.text, self.finish, self.tokens, self.pieces = run, text, finish, tokens, pieces


def by_chat(model, history, stream, **more):
    more = {"model": model, "messages": history, "max_tokens": FEW, **more}
    if stream:
        chunks = client.chat.completions.create(**more, stream=True, stream_options={"include_usage": True})
        run = run_of(first := next(iter(chunks)))
        said = Streamed(itertools.chain([first], chunks)).whole()
        [finish], [usage] = said.finishes, said.usages
        return Answer(run, said.text, finish, (usage.prompt_tokens, usage.completion_tokens), said.chunks)
    said = client.chat.completions.create(**more)
    [choice], usage = said.choices, said.usage
    used = (usage.prompt_tokens, usage.completion_tokens)
    return Answer(run_of(said), choice.message.content, choice.finish_reason, used)


def by_messages(model, history, stream, **more):
    more = {"model": model, "messages": history, "max_tokens": FEW, **more}
    if stream:
        with messages.messages.stream(**more) as events:
            pieces = sum(1 for _ in events.text_stream)
            said = events.get_final_message()
    else:
        pieces, said = 1, messages.messages.create(**more)
    finish = {"end_turn": "stop", "max_tokens": "length"}[said.stop_reason]
    cached = said.usage.cache_read_input_tokens or 0
    return Answer(said.id.removeprefix("msg_"), "".join(block.text for block in said.content), finish,
                  (said.usage.input_tokens + cached, said.usage.output_tokens), pieces)


def by_responses(model, history, stream, **more):
    more = {"model": model, "input": history, "max_output_tokens": FEW, **more}
    if stream:
        # The SDK's own helper knows no response but a completed one.
        events = list(client.responses.create(**more, stream=True))
        pieces, said = sum(event.type == "response.output_text.delta" for event in events), events[-1].response
    else:
        pieces, said = 1, client.responses.create(**more)
    finish = {"completed": "stop", "incomplete": "length"}[said.status]
    return Answer(said.id.removeprefix("resp_"), said.output_text, finish,
                  (said.usage.input_tokens, said.usage.output_tokens), pieces)


DOORS = [by_chat, by_messages, by_responses]


def asked():
    """How often the server was asked by each path so far, and the newest bodies."""
    return get("/__asked", os.environ["TAP_URL"])


def each():
    """Every wire behind every door."""
    return [(wire, door) for wire in WIRES for door in DOORS]


@check
def every_wire_answers_behind_every_door_whole_and_streamed():
    for wire, door in each():
        name, before = f"{wire} {door.__name__}", asked()["asked"].get(WIRES[wire], 0)
        for stream in [False, True]:
            answer = door(f"{wire}:gemma", [user("hi")], stream)
            ran = get(f"/v1/runs/{answer.run}")
            equal((ran["outcome"], ran["model"], ran["output"]), ("completed", f"{wire}:gemma", answer.text), name)
            equal((answer.finish, answer.tokens[1]), (CUT[wire], FEW), name)
            assert answer.text and answer.tokens[0] > 0, (name, answer.text, answer.tokens)
            assert answer.pieces > 3 or not stream, (name, answer.pieces)
        equal(asked()["asked"][WIRES[wire]] - before, 2, f"the questions at {WIRES[wire]}")


@check
def every_wire_counts_the_same_prompt_the_same():
    counts = {by_chat(f"{wire}:gemma", [user("how many tokens are these?")], False).tokens[0] for wire in WIRES}
    equal(len(counts), 1, f"the number of different counts of {counts}")


WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


@check
def a_call_and_its_result_go_by_every_wire_in_its_own_shape():
    call = {"id": "call_a", "type": "function", "function": {"name": "get_weather", "arguments": '{"city":"Paris"}'}}
    history = [user("weather?"), {"role": "assistant", "content": None, "tool_calls": [call]},
               {"role": "tool", "tool_call_id": "call_a", "content": "rain"}]
    tools = [{"type": "function", "function": {"name": "get_weather", "parameters": WEATHER}}]
    for wire, path in WIRES.items():
        for stream in [False, True]:
            assert by_chat(f"{wire}:gemma", history, stream, tools=tools).text is not None
        sent = asked()["bodies"][path]
        for word in {"llamacpp": ['"tool_calls"', '"tool_call_id"'], "vllm": ['"tool_use"', '"tool_result"'],
                     "lmstudio": ['"function_call"', '"function_call_output"']}[wire]:
            assert word in sent, (wire, word, sent)


@check
def a_prompt_that_is_too_long_is_a_bad_request_at_every_door():
    kinds = {by_chat: openai.BadRequestError, by_messages: anthropic.BadRequestError, by_responses: openai.BadRequestError}
    for wire, door in each():
        error = raised(kinds[door], lambda: door(f"{wire}:gemma", [user("word " * 9000)], False))
        assert "context" in error.message, (wire, error.message)


@check
def a_session_goes_on_from_wire_to_wire_and_door_to_door():
    headers = {"x-piton-session-id": f"wires-{os.getpid()}"}
    history = [user("one")]
    # A response is no part of a session: it goes on by its own id.
    for turn, (wire, door) in enumerate(zip(WIRES, [by_chat, by_messages, by_chat])):
        answer = door(f"{wire}:gemma", history, False, extra_headers=headers)
        history += [{"role": "assistant", "content": answer.text}, user(f"turn {turn}")]
    session = get(f"/v1/runs/{answer.run}")["session_id"]
    kept = get(f"/v1/sessions/{session}/messages")["data"]
    equal([message["role"] for message in kept], ["user", "assistant"] * 3, "the roles of the session")


if __name__ == "__main__":
    main()
