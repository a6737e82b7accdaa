"""OpenAI's Python SDK at `/v1/responses`, in front of the demo's script."""

import openai

from completions import WEATHER, client
from report import KEY, TIMEOUT, URL, check, equal, main, raised

SIGN = "[scripted demo] "
TOOLS = [{"type": "function", **WEATHER["function"]}]


def ask(text, **more):
    return client.responses.create(model="demo", input=text, **more)


def streamed(text, **more):
    """The response that the SDK puts together from a stream, and the pieces of its text."""
    with client.responses.stream(model="demo", input=text, **more) as stream:
        pieces = [event.delta for event in stream if event.type == "response.output_text.delta"]
        return stream.get_final_response(), pieces


@check
def an_answer_is_kept_and_read_again():
    answer = ask("hello", metadata={"mine": "1"}, instructions="be kind")
    equal((answer.status, answer.metadata, answer.instructions), ("completed", {"mine": "1"}, "be kind"))
    assert answer.output_text.startswith(SIGN) and answer.usage.total_tokens > 0, answer
    equal(client.responses.retrieve(answer.id), answer)


@check
def a_stream_comes_word_by_word_and_says_the_same():
    final, pieces = streamed("hello there")
    equal("".join(pieces), ask("hello there").output_text)
    equal("".join(pieces), final.output_text)
    assert len(pieces) > 5, pieces
    equal(client.responses.retrieve(final.id).output_text, final.output_text)


@check
def an_answer_that_is_cut_short_says_so():
    answer = ask("one two three four", max_output_tokens=3)
    equal((answer.status, answer.incomplete_details.reason), ("incomplete", "max_output_tokens"))


@check
def a_tool_call_goes_round_by_id_and_with_everything_sent_again():
    text = 'tool get_weather {"city": "Paris"}'
    for called in [ask(text, tools=TOOLS), streamed(text, tools=TOOLS)[0]]:
        [call] = [item for item in called.output if item.type == "function_call"]
        equal((call.name, call.arguments), ("get_weather", '{"city": "Paris"}'))
        result = {"type": "function_call_output", "call_id": call.call_id, "output": "rain"}
        by_id = ask([result], tools=TOOLS, previous_response_id=called.id)
        items = [item.model_dump(include=set(item.to_dict())) for item in called.output]
        again = ask([{"role": "user", "content": text}, *items, result], tools=TOOLS, store=False)
        assert "answers: rain" in by_id.output_text, by_id.output_text
        equal(again.output_text, by_id.output_text)
        raised(openai.NotFoundError, lambda: client.responses.retrieve(again.id))


@check
def errors_are_those_of_the_sdk():
    wrong = openai.OpenAI(base_url=f"{URL}/v1", api_key="wrong", timeout=TIMEOUT)
    raised(openai.AuthenticationError, lambda: wrong.responses.create(model="demo", input="hi"))
    error = raised(openai.BadRequestError, lambda: ask("hi", background=True))
    equal(error.param, "background")
    raised(openai.NotFoundError, lambda: ask("hi", previous_response_id="resp_run_" + "0" * 29 + "7"))
    raised(openai.APIError, lambda: streamed("fail cut responses"))
    assert KEY not in str(error)


if __name__ == "__main__":
    main()
