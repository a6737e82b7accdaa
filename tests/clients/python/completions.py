"""OpenAI's SDK as the client under test at `/v1/chat/completions`: one client, whole answers, streams read to their end."""

import openai

from report import KEY, TIMEOUT, URL, equal, user

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


def run_of(completion):
    """A run's id from the id of its completion or chunk."""
    return completion.id.removeprefix("chatcmpl-")
