"""Aider at `/v1/chat/completions` and `/v1/messages`, in front of the demo's script and the mock: it writes the file that an
answer lists."""

import pathlib
import sys

from command import Program
from nodes import DELTAS, DEMO, MOCK, NARROW, NEW, SIGN, no_room
from report import body_of, check, equal, main

# By the names that aider gives to the families: which variable has the address, and what it takes as its base.
FAMILIES = {"openai": ("OPENAI_API_BASE", lambda node: node.v1), "anthropic": ("ANTHROPIC_API_BASE", lambda node: node.url)}
QUIET = ["--no-git", "--yes-always", "--no-check-update", "--no-show-model-warnings", "--analytics-disable", "--no-pretty",
         "--map-tokens", "0", "--no-suggest-shell-commands", "--no-detect-urls"]


def aider(family, node=DEMO, model="demo"):
    """The program in a home of its own, set up as its user would."""
    variable, base = FAMILIES[family]
    program = Program(
        str(pathlib.Path(sys.executable).with_name("aider")), "--model", f"{family}/{model}", *QUIET,
        LITELLM_LOCAL_MODEL_COST_MAP="True", **{variable: base(node), f"{family.upper()}_API_KEY": node.key},
    )
    # It would fetch a table of prices otherwise.
    prices = program.home / ".aider" / "caches" / "model_prices_and_context_window.json"
    prices.parent.mkdir(parents=True)
    prices.write_text('{"nothing": {}}')
    return program


def said(program, text, *more):
    ended = program.run("--message", text, *more)
    equal(ended.code, 0, f"the code ({ended.err})")
    return ended.out


@check
def whole_and_streamed_answers_are_the_same():
    for family in FAMILIES:
        answers = [said(aider(family), "hello there", *more) for more in [["--stream"], ["--no-stream"]]]
        stream, whole = [answer.partition(SIGN)[2].partition("Tokens:")[0].split() for answer in answers]
        equal(stream, whole, family)
        equal(" ".join(whole[:4]), "You said: hello there", family)


@check
def the_file_of_an_answer_is_written():
    for family in FAMILIES:
        for more in [["--stream"], ["--no-stream"]]:
            program = aider(family)
            out = said(program, "please:\n\nnote.txt\n```\nrain in Paris\n```\n", *more)
            assert "Applied edit to note.txt" in out, out
            equal((program.home / "note.txt").read_text(), "rain in Paris\n", family)


@check
def the_file_goes_to_the_model():
    program = aider("openai", MOCK, "m-file")
    (program.home / "note.txt").write_text("rain in Paris\n")
    said(program, "hi", "note.txt")
    sent = body_of("m-file")["messages"]
    assert sent[0]["role"] == "system" and any("note.txt\n```\nrain in Paris\n```" in one["content"] for one in sent), sent


@check
def errors_are_said():
    for family in FAMILIES:
        out = said(aider(family, DEMO._replace(key="wrong")), "hi")
        assert "AuthenticationError" in out and SIGN not in out, out
        out = said(aider(family, MOCK, "opnai:demo"), "hi")
        assert "BadRequestError" in out and "opnai" in out, out


@check
def a_stream_that_breaks_is_said_and_asked_again():
    for family in FAMILIES:
        out = said(aider(family), f"fail cut {family} {NEW}")
        assert f"{SIGN}failure 1 of 2" in out and "stream_truncated" in out and "Retrying in" in out, out
        assert "After 2 calls that failed (cut), this one succeeds." in out, out


@check
def a_node_without_room_is_tried_again():
    # It takes some seconds until it asks: the room is taken until it has been refused.
    with no_room(60_000) as leave, aider("openai", NARROW, "m-plain").started("--message", "hi") as program:
        out = ""
        while "Retrying in" not in out and (line := program.stdout.readline()):
            out += line
        leave()
        out += program.stdout.read()
    assert "RateLimitError" in out and "Retrying in" in out and DELTAS.strip() in out, out


if __name__ == "__main__":
    main()
