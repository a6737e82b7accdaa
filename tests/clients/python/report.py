"""Named checks, run one after the other: a line each, and their count at the end. Also what the scripts share: the
client under test, and the looks at the node and the mock from outside."""

import json
import os
import time
import urllib.request

import openai

URL = os.environ["CLIENT_URL"]
# Of the role `runner`; what is looked at from outside is looked at with the administrator's.
KEY = os.environ["CLIENT_KEY"]
ADMIN_KEY = os.environ["CLIENT_ADMIN_KEY"]
MOCK_URL = os.environ.get("MOCK_URL", "")
# Seconds for one call of an SDK, and until an awaited state shows.
TIMEOUT = 120

# As an application has it, retries included: a node that lets an SDK repeat what can not help is seen by its hits.
client = openai.OpenAI(base_url=f"{URL}/v1", api_key=KEY, timeout=TIMEOUT)

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
TIME = {
    "type": "function",
    "function": {
        "name": "get_time",
        "description": "The time in a zone.",
        "parameters": {"type": "object", "properties": {"tz": {"type": "string"}}, "required": ["tz"]},
    },
}

_checks = []


def check(function):
    """Registers a check; its name is the function's."""
    _checks.append(function)
    return function


def main():
    """Runs every check; the exit code is 1 when one failed."""
    failed = 0
    for function in _checks:
        name = function.__name__.replace("_", " ")
        try:
            function()
            print("ok", name, flush=True)
        except Exception as error:  # Whatever goes wrong is this check's, and the next one runs.
            failed += 1
            why = " ".join(str(error).split()) or "no reason given"
            print(f"FAIL {name}: {type(error).__name__}: {why[:600]}", flush=True)
    print(f"{len(_checks) - failed} passed, {failed} failed", flush=True)
    raise SystemExit(1 if failed else 0)


def equal(got, wanted, what="it"):
    assert got == wanted, f"{what} is {got!r}, not {wanted!r}"


def raised(kind, call):
    """The error of this kind, or of one of these, that the call raises; any other, or none, is a failure."""
    try:
        got = call()
    except kind as error:
        return error
    raise AssertionError(f"no error was raised, but {got!r} came")


def user(text):
    return {"role": "user", "content": text}


def ask(model, text="hi", **more):
    """One completion, whole."""
    return client.chat.completions.create(model=model, messages=[user(text)], **more)


class Streamed:
    """A stream read to its end or to its error."""

    def __init__(self, stream):
        self.text, self.finishes, self.usages, self.chunks, self.error = "", [], [], 0, None
        self.calls = {}
        try:
            for chunk in stream:
                self._take(chunk)
        except openai.APIError as error:
            self.error = error

    def _take(self, chunk):
        self.chunks += 1
        if chunk.usage is not None:
            self.usages.append(chunk.usage)
        for choice in chunk.choices:
            self.text += choice.delta.content or ""
            if choice.finish_reason:
                self.finishes.append(choice.finish_reason)
            for piece in choice.delta.tool_calls or []:
                call = self.calls.setdefault(piece.index, {"id": "", "name": "", "arguments": ""})
                call["id"] += piece.id or ""
                call["name"] += piece.function.name or ""
                call["arguments"] += piece.function.arguments or ""

    def whole(self):
        """The same, after making sure that it ended as a stream should: one finish reason, no error."""
        assert self.error is None, f"the stream raised {self.error}"
        equal(len(self.finishes), 1, "the number of finish reasons")
        return self


def streamed(model, text="hi", **more):
    """One completion, streamed, with usage."""
    more.setdefault("stream_options", {"include_usage": True})
    return Streamed(client.chat.completions.create(model=model, messages=[user(text)], stream=True, **more))


def get(path, base=URL):
    """GET, as JSON; lines of JSON as a list."""
    request = urllib.request.Request(base + path, headers={"authorization": f"Bearer {ADMIN_KEY}"})
    text = urllib.request.urlopen(request, timeout=TIMEOUT).read().decode()
    if path.endswith("/journal"):
        return [json.loads(line) for line in text.splitlines()]
    return json.loads(text)


def run_of(completion):
    """A run's id from the id of its completion or chunk."""
    return completion.id.removeprefix("chatcmpl-")


def awaited(what, look):
    """Looks until something shows."""
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline:
        found = look()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"waited {TIMEOUT} s and never: {what}")


def hits(model):
    """When the mock was asked for a model, in milliseconds since its start."""
    stats = get("/__stats", MOCK_URL)
    return [at for key, seen in stats.items() if key.split(" ")[0] == model for at in seen["t"]]


def body_of(model):
    """The newest request for a model, as the mock received it."""
    return json.loads(get("/__bodies", MOCK_URL)[model])


def reset_mock():
    urllib.request.urlopen(urllib.request.Request(f"{MOCK_URL}/__reset", method="POST"), timeout=TIMEOUT).read()
