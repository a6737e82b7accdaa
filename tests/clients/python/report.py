"""Named checks, run one after the other: a line each, and their count at the end. Also what the scripts of all clients
share: where the nodes are, and the looks at them and at the mock from outside. Needs nothing but Python."""

import json
import os
import time
import urllib.request

URL = os.environ["CLIENT_URL"]
# Of the role `runner`; what is looked at from outside is looked at with the administrator's.
KEY = os.environ["CLIENT_KEY"]
ADMIN_KEY = os.environ["CLIENT_ADMIN_KEY"]
MOCK_URL = os.environ.get("MOCK_URL", "")
# Seconds for one call of an SDK, and until an awaited state shows.
TIMEOUT = 120

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


def get(path, base=URL):
    """GET, as JSON; lines of JSON as a list."""
    request = urllib.request.Request(base + path, headers={"authorization": f"Bearer {ADMIN_KEY}"})
    text = urllib.request.urlopen(request, timeout=TIMEOUT).read().decode()
    if path.endswith("/journal"):
        return [json.loads(line) for line in text.splitlines()]
    return json.loads(text)


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


def revive():
    """Takes back into use the key that the node has from its environment, after a provider has said that it is none."""
    body = json.dumps({"action": "revive", "provider": "openai", "profile": "env"}).encode()
    headers = {"authorization": f"Bearer {ADMIN_KEY}", "content-type": "application/json"}
    urllib.request.urlopen(urllib.request.Request(f"{URL}/v1/harness/credentials", body, headers), timeout=TIMEOUT).read()
