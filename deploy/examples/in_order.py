"""Puts public events in order: each stream's events once, by version, with what was missed filled in from a gateway."""

import json
import urllib.request


class InOrder:
    """Hand it each message as it comes; it hands back the events that follow, in order, filled where some were missed."""

    def __init__(self, gateway, key):
        self.gateway, self.key = gateway.rstrip("/"), key
        # The newest version of each stream. A program that restarts keeps this where it keeps its results.
        self.seen = {}

    def take(self, headers, body):
        event = json.loads(body)
        stream = (event["kind"], event["id"])
        seen = self.seen.get(stream, 0)
        if int(headers["Piton-Version"]) <= seen:
            return  # Told twice, as may be after a node's death.
        if int(headers["Piton-Previous-Version"]) > seen:
            for missed in self.fill(stream, seen, event["version"]):
                self.seen[stream] = missed["version"]
                yield missed
        self.seen[stream] = event["version"]
        yield event

    def fill(self, stream, after, before):
        """Reads the events between two versions from the stream's journal, as lines of JSON, one for each commit."""
        kind, name = stream
        url = f"{self.gateway}/v1/{kind}s/{name}/journal?after={after}"
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {self.key}"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            for line in answer:
                commit = json.loads(line)
                if "error" in commit:
                    raise RuntimeError(f"the gap in {name} can not be filled: {commit['error']['message']}")
                for entry in commit["entries"]:
                    if after < entry["version"] < before:
                        yield {
                            "kind": kind,
                            "id": name,
                            "version": entry["version"],
                            "name": entry["name"],
                            "event": entry["event"],
                            "data": entry["data"],
                            "filled": True,
                        }
