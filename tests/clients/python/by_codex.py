"""Codex CLI at `/v1/responses`, in front of the demo's script and the mock: it runs the command that the model asks for."""

import json
import os

from command import Program
from nodes import DELTAS, DEMO, MOCK, NARROW, NEW, SIGN, hits_of, no_room, says
from report import body_of, check, equal, hits, main

PROVIDER = '''
[model_providers.{name}]
name = "{name}"
base_url = "{base}"
env_key = "PITON_KEY_{name}"
wire_api = "responses"
request_max_retries = {again}
stream_max_retries = {again}
'''
# Providers as codex names them: the node, the model, and how often codex asks again.
PROVIDERS = {"demo": (DEMO, "demo", 3), "mock": (MOCK, "m-plain", 0), "narrow": (NARROW, "m-plain", 20),
             "locked": (DEMO._replace(key="wrong"), "demo", 3), "broken": (MOCK, "m-500", 0)}

# There is nothing to guard: the only commands are the ones of this script.
FREE = ["--dangerously-bypass-approvals-and-sandbox", "--skip-git-repo-check", "--json"]

program = Program(os.path.join(os.environ["CLIENT_MODULES"], "node_modules", ".bin", "codex"))


def set_up():
    """Writes codex's configuration, as its user would. The keys are in the environment."""
    config = 'approval_policy = "never"\ncheck_for_update_on_startup = false\n[analytics]\nenabled = false\n'
    for name, (node, _, again) in PROVIDERS.items():
        config += PROVIDER.format(name=name, base=node.v1, again=again)
        program.variables[f"PITON_KEY_{name}"] = node.key
    program.variables["CODEX_HOME"] = str(program.home)
    (program.home / "config.toml").write_text(config)


class Turn:
    """What one turn of codex said, event by event."""

    def __init__(self, text, provider="demo", verb=None, thread=None, model=None):
        _, name, _ = PROVIDERS[provider]
        options = [*FREE, "-c", f"model_provider={provider}", "-m", model or name]
        ended = program.run("exec", *(word for word in [verb, *options, thread, text] if word))
        self.code, self.err = ended.code, ended.err
        self.events = [json.loads(line) for line in ended.out.splitlines() if line.startswith("{")]

    def items(self, kind):
        return [event["item"] for event in self.events
                if event["type"] == "item.completed" and event["item"]["type"] == kind]

    def said(self):
        """The last message of a turn that ended well."""
        equal((self.code, self.events[-1]["type"]), (0, "turn.completed"), f"the end ({self.events[-3:]}, {self.err})")
        return self.items("agent_message")[-1]["text"]

    def resumed(self):
        """The arguments that go on with the thread of this turn."""
        return ["resume", self.events[0]["thread_id"]]

    def errors(self):
        return [event for event in self.events if event["type"] in ("error", "turn.failed")]


@check
def a_turn_ends_with_an_answer_and_its_usage():
    turn = Turn("hello there")
    assert turn.said().startswith(says("hello there")), turn.said()
    usage = turn.events[-1]["usage"]
    assert usage["input_tokens"] > 100 and usage["output_tokens"] > 0, usage


@check
def its_instructions_and_tools_reach_the_provider():
    equal(Turn("hello", "mock").said().strip(), DELTAS.strip())
    sent = body_of("m-plain")
    assert "exec_command" in [tool["function"]["name"] for tool in sent["tools"]], sent["tools"]
    roles = [message["role"] for message in sent["messages"]]
    assert roles[0] in ("system", "developer") and roles[-1] == "user", roles
    assert "hello" in json.dumps(sent["messages"][-1]), sent["messages"][-1]


@check
def a_command_is_run_and_the_answer_has_what_it_printed():
    turn = Turn('tool exec_command {"cmd": "echo rain in $((3 + 4)) cities"}')
    [ran] = turn.items("command_execution")
    equal((ran["exit_code"], ran["aggregated_output"]), (0, "rain in 7 cities\n"))
    said = turn.said()
    assert said.startswith(f"{SIGN}The tool exec_command answers:") and "rain in 7 cities" in said, said


@check
def a_command_that_fails_is_told():
    turn = Turn('tool exec_command {"cmd": "echo no such city; exit 3"}')
    equal([ran["exit_code"] for ran in turn.items("command_execution")], [3])
    assert "exited with code 3" in turn.said(), turn.said()


@check
def a_thread_goes_on_with_what_was_said():
    called = Turn('tool exec_command {"cmd": "echo rain"}')
    again = Turn("bye", "demo", *called.resumed())
    assert again.said().startswith(says("bye")), again.said()
    first = Turn("one", "mock", model="m-thread")
    equal(Turn("two", "mock", *first.resumed(), model="m-thread").said(), first.said())
    sent = [(message["role"], json.dumps(message["content"])) for message in body_of("m-thread")["messages"]]
    spoken = [role for role, text in sent if any(word in text for word in ['"one"', "tok19", '"two"'])]
    equal(spoken, ["user", "assistant", "user"], "the roles of the two turns")


@check
def an_answer_that_breaks_is_asked_for_again():
    turn = Turn(f"fail cut codex {NEW}")
    equal(turn.said(), f"{SIGN}After 2 calls that failed (cut), this one succeeds.")
    equal(len(turn.errors()), 2, "the errors that were shown")
    assert all("stream_truncated" in error["message"] for error in turn.errors()), turn.errors()


@check
def errors_are_said_and_the_turn_fails():
    for turn, words in [
        (Turn("hi", "locked"), "401"),
        (Turn("hi", "mock", model="opnai:demo"), "opnai"),
        (Turn("hi", "broken"), "server_error"),
    ]:
        equal((turn.code, turn.events[-1]["type"]), (1, "turn.failed"), words)
        assert words in json.dumps(turn.errors()), turn.errors()


@check
def a_node_without_room_is_tried_again():
    before = len(hits("m-plain"))
    with no_room(4000):
        turn = Turn("hi", "narrow")
    equal(turn.said().strip(), DELTAS.strip())
    equal(len(hits("m-plain")) - before, 1, "the calls at the provider")


if __name__ == "__main__":
    set_up()
    main()
