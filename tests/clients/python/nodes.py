"""The nodes that a client of the matrix is tried on: the demo's script, the mock, and the mock with room for one run."""

import contextlib
import json
import os
import typing
import urllib.request

from report import KEY, TIMEOUT, URL, awaited, get, hits, reset_mock


class Node(typing.NamedTuple):
    """Where a node is, and a key of the role `runner`."""

    url: str
    key: str

    @property
    def v1(self):
        """What a client of OpenAI's takes as its base."""
        return f"{self.url}/v1"


DEMO = Node(URL, KEY)
MOCK = Node(os.environ["MOCK_NODE_URL"], os.environ["MOCK_NODE_KEY"])
NARROW = Node(os.environ["NARROW_URL"], os.environ["NARROW_KEY"])

# How the demo begins each answer, and what the mock streams.
SIGN = "[scripted demo] "
DELTAS = "".join(f"tok{i} " for i in range(20))
# How often the node itself asks a provider that fails, before it says so.
ATTEMPTS = 3
# The demo fails twice for each text: one that is new in each process begins anew.
NEW = str(os.getpid())


def says(text):
    """What the demo answers to a text that it does not know begins like this."""
    return f"{SIGN}You said: {text}"


def _post(path, body):
    headers = {"authorization": f"Bearer {NARROW.key}", "content-type": "application/json"}
    request = urllib.request.Request(NARROW.url + path, json.dumps(body).encode(), headers)
    return json.load(urllib.request.urlopen(request, timeout=TIMEOUT))


@contextlib.contextmanager
def no_room(millis=1500):
    """For so long, or until what it gives is called, the narrow node is at work at its one run, and refuses another with 429
    and a `retry-after`."""
    run = _post("/v1/runs", {"model": f"m-slow{millis}", "input": "hi"})["id"]
    try:
        yield lambda: _post(f"/v1/runs/{run}/stop", {})
    finally:
        awaited("the slow run has ended", lambda: get(f"/v1/runs/{run}", NARROW.url)["outcome"])


def hits_of(model, call):
    """How often the mock is asked for a model while a call is made."""
    reset_mock()
    call()
    return len(hits(model))
