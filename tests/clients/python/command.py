"""A client that is a program of its own: it runs in an empty home, with nothing of the caller's settings."""

import contextlib
import os
import pathlib
import subprocess
import tempfile
import typing

from report import TIMEOUT


class Ended(typing.NamedTuple):
    """How a program ended, and what it said."""

    code: int
    out: str
    err: str


class Program:
    """A program, its home, and the variables that it sees beside the path."""

    def __init__(self, *command, **variables):
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="piton-client-"))
        self._command = [*command]
        self.variables = {"HOME": str(self.home), "PATH": os.environ["PATH"], "NO_PROXY": "127.0.0.1", "NO_COLOR": "1",
                      "LANG": "C.UTF-8", **variables}

    def _more(self):
        return {"cwd": self.home, "env": self.variables, "stdin": subprocess.DEVNULL, "text": True}

    def run(self, *arguments):
        """Runs it to its end."""
        ended = subprocess.run([*self._command, *arguments], capture_output=True, timeout=TIMEOUT, **self._more())
        return Ended(ended.returncode, ended.stdout, ended.stderr)

    @contextlib.contextmanager
    def started(self, *arguments):
        """Runs it beside us; it is ended at the latest with the block. What it says comes as lines or as it is read."""
        with open(self.home / "err.txt", "w") as err:
            program = subprocess.Popen([*self._command, *arguments], stdout=subprocess.PIPE, stderr=err, **self._more())
        try:
            yield program
        finally:
            program.kill()
            program.communicate()
