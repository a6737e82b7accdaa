"""The `llm` command at `/v1/chat/completions`, in front of the demo's script and the mock."""

import pathlib
import sys

from command import Program
from nodes import ATTEMPTS, DELTAS, DEMO, MOCK, NARROW, NEW, SIGN, hits_of, no_room, says
from report import check, equal, main

# Under the names that the commands below give them: where a model is, and its name there.
MODELS = {"demo": (DEMO, "demo"), "narrow": (NARROW, "m-plain"), "broken": (MOCK, "m-500"), "cut": (MOCK, "m-cut"),
          "locked": (DEMO, "demo")}

llm = Program(str(pathlib.Path(sys.executable).with_name("llm")))
llm.variables["LLM_USER_PATH"] = str(llm.home)
WEATHER = '''
def get_weather(city: str) -> str:
    "The weather of a city."
    return f"rain in {city}"

def get_time(tz: str) -> str:
    "The time in a zone."
    return f"noon in {tz}"
'''


def set_up():
    """Writes what a user writes to name models of another server."""
    entry = ('- model_id: {0}\n  model_name: "{1}"\n  api_base: "{2}"\n  api_key_name: {0}\n'
             "  supports_tools: true\n  supports_schema: true\n")
    models = "".join(entry.format(name, model, node.v1) for name, (node, model) in MODELS.items())
    (llm.home / "extra-openai-models.yaml").write_text(models)
    for name, (node, _) in MODELS.items():
        key = "wrong" if name == "locked" else node.key
        ended = llm.run("keys", "set", name, "--value", key)
        equal(ended.code, 0, ended.err)


def ask(model, *arguments):
    return llm.run("prompt", "-m", model, *arguments)


def said(model, *arguments):
    """What it prints when it ends well."""
    ended = ask(model, *arguments)
    equal(ended.code, 0, f"the code of {arguments} ({ended.err.strip()})")
    return ended.out.rstrip("\n")


@check
def whole_and_streamed_answers_are_the_same():
    whole = ask("demo", "--no-stream", "--usage", "hello there")
    assert whole.out.startswith(says("hello there")), whole
    equal(said("demo", "hello there"), whole.out.rstrip("\n"))
    assert "Token usage: 2 input" in whole.err, whole.err


@check
def words_are_printed_while_the_answer_is_made():
    with llm.started("prompt", "-m", "demo", "slow 40") as program:
        first = program.stdout.read(len(SIGN) + 1)
        assert program.poll() is None, "the program had ended when its first word was read"
        equal(first + program.stdout.read().rstrip("\n"), SIGN + " ".join(str(i) for i in range(1, 41)))
        equal(program.wait(), 0)


@check
def a_tool_call_goes_round():
    for more in [[], ["--no-stream"]]:
        text = said("demo", "--functions", WEATHER, *more, 'tool get_weather {"city": "Paris"}')
        assert text.endswith(f"{SIGN}The tool get_weather answers: rain in Paris"), text


@check
def a_conversation_goes_on():
    said("demo", "--functions", WEATHER, 'tool get_weather {"city": "Rome"}')
    assert said("demo", "-c", "bye").startswith(says("bye"))


@check
def errors_are_said_and_the_program_fails():
    for model, text, words in [
        ("locked", "hi", "401"),
        ("demo", f"fail 401 llm {NEW}", "auth_invalid"),
        ("demo", f"fail cut llm {NEW}", "stream_truncated"),
        ("cut", "hi", "stream_truncated"),
    ]:
        ended = ask(model, text)
        assert ended.code != 0 and words in ended.err, (text, ended)
    assert DEMO.key not in ended.err


@check
def a_node_without_room_is_tried_again():
    with no_room():
        equal(said("narrow", "hi").strip(), DELTAS.strip())


@check
def a_provider_that_fails_is_not_asked_again_by_the_client():
    equal(hits_of("m-500", lambda: ask("broken", "hi")), ATTEMPTS, "the calls at the provider")


if __name__ == "__main__":
    set_up()
    main()
