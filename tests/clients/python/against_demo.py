"""OpenAI's Python SDK against `piton serve --demo`: a script answers, so tool round trips end in a known text."""

import os

import openai

from completions import TIME, WEATHER, Streamed, ask, client, run_of, streamed
from report import check, equal, get, main, raised, user

SIGN = "[scripted demo] "
CLOCK = {"type": "function", "function": {"name": "clock_now"}}
NOTE = {"type": "function", "function": {"name": "note_append"}}


def result(call, text):
    return {"role": "tool", "tool_call_id": call.id, "content": text}


def create(messages, **more):
    return client.chat.completions.create(model="demo", messages=messages, **more)


@check
def models_are_listed():
    assert "demo:demo" in [model.id for model in client.models.list()]


@check
def every_answer_says_that_it_is_scripted():
    # A client whose model is set to something else is answered too.
    for name in ["demo", "demo:demo", "demo/demo-2", "gpt-4o"]:
        answer = ask(name, "hello")
        assert answer.choices[0].message.content.startswith(SIGN), name
        assert answer.usage.total_tokens > 0, name


@check
def a_stream_comes_word_by_word_and_says_the_same():
    stream = streamed("demo", "hello there").whole()
    equal(stream.text, ask("demo", "hello there").choices[0].message.content)
    assert stream.chunks > 5 and len(stream.usages) == 1, (stream.chunks, stream.usages)


@check
def a_tool_call_goes_round():
    for stream in [False, True]:
        messages = [user('tool get_weather {"city": "Paris"}')]
        if stream:
            with client.chat.completions.stream(model="demo", messages=messages, tools=[WEATHER, TIME]) as events:
                called = events.get_final_completion().choices[0]
        else:
            called = create(messages, tools=[WEATHER, TIME]).choices[0]
        [call] = called.message.tool_calls
        equal((called.finish_reason, call.function.name), ("tool_calls", "get_weather"))
        equal(call.function.arguments, '{"city": "Paris"}', "the arguments")
        answer = create([*messages, called.message, result(call, "rain")], tools=[WEATHER, TIME], stream=stream)
        text = Streamed(answer).whole().text if stream else answer.choices[0].message.content
        equal(text, f"{SIGN}The tool get_weather answers: rain")


@check
def parallel_calls_go_round():
    for more in [{}, {"parallel_tool_calls": False}]:
        messages, rounds = [user("both: rope")], []
        while True:
            choice = create(messages, tools=[CLOCK, NOTE], **more).choices[0]
            calls = choice.message.tool_calls or []
            if not calls:
                break
            rounds.append([call.function.name for call in calls])
            messages += [choice.message, *(result(call, f"did {call.function.name}") for call in calls)]
        names = ["clock_now", "note_append"]
        equal(rounds, [[name] for name in names] if more else [names], f"the calls with {more}")
        equal(choice.message.content, f"{SIGN}The tool clock_now answers: did clock_now\n"
                                      "The tool note_append answers: did note_append")


@check
def no_tool_is_called_where_calls_are_forbidden():
    choice = create([user("clock")], tools=[CLOCK], tool_choice="none").choices[0]
    equal((choice.message.tool_calls, choice.finish_reason), (None, "stop"))


@check
def a_call_in_a_session_is_answered_into_the_same_run():
    for stream in [False, True]:
        headers = {"x-piton-session-id": f"python-{os.getpid()}-{stream}"}
        messages = [user('tool get_weather {"city": "Paris"}')]
        called = create(messages, tools=[WEATHER], extra_headers=headers)
        [call] = called.choices[0].message.tool_calls
        equal(get(f"/v1/runs/{run_of(called)}")["status"], "waiting_for_client_tools")
        messages += [called.choices[0].message, result(call, "rain")]
        answer = create(messages, tools=[WEATHER], extra_headers=headers, stream=stream)
        if stream:
            first = next(iter(answer))
            run, text = run_of(first), Streamed(answer).whole().text
        else:
            run, text = run_of(answer), answer.choices[0].message.content
        equal((run, text), (run_of(called), f"{SIGN}The tool get_weather answers: rain"))
        ended = get(f"/v1/runs/{run}")
        equal((ended["status"], ended["steps"]), ("completed", 2))
        # The next turn begins with all of it.
        messages += [{"role": "assistant", "content": text}, user("bye")]
        bye = create(messages, tools=[WEATHER], extra_headers=headers)
        assert "bye" in bye.choices[0].message.content


@check
def results_that_miss_a_call_are_refused_and_the_run_waits_on():
    headers = {"x-piton-session-id": f"python-{os.getpid()}-partly"}
    called = create([user("both: rope")], tools=[CLOCK, NOTE], extra_headers=headers)
    message = called.choices[0].message
    results = [result(call, "done") for call in message.tool_calls]
    answer = lambda some: create([user("both: rope"), message, *some], tools=[CLOCK, NOTE], extra_headers=headers)
    error = raised(openai.BadRequestError, lambda: answer(results[:1]))
    assert message.tool_calls[1].id in error.message, error.message
    equal(get(f"/v1/runs/{run_of(called)}")["status"], "waiting_for_client_tools")
    equal(run_of(answer(results)), run_of(called), "the run that answers")


@check
def a_caller_may_go_on_without_the_results():
    headers = {"x-piton-session-id": f"python-{os.getpid()}-gone"}
    messages = [user("tool get_weather {}")]
    called = create(messages, tools=[WEATHER], extra_headers=headers)
    answer = create([*messages, user("never mind")], tools=[WEATHER], extra_headers=headers)
    assert "never mind" in answer.choices[0].message.content, answer
    ended = get(f"/v1/runs/{run_of(called)}")
    equal((ended["outcome"], ended["reason"]), ("errored", "client_tool_gone"), "the run that waited")


@check
def faults_of_the_provider_that_pass_are_not_seen():
    for fault in ["429", "500"]:
        for stream in [False, True]:
            text = f"fail {fault} python {stream}"
            said = streamed("demo", text).whole().text if stream else ask("demo", text).choices[0].message.content
            assert said.startswith(f"{SIGN}After 2 calls that failed ({fault})"), said
    said = ask("demo", "fail cut python").choices[0].message.content
    assert said.startswith(f"{SIGN}After 2 calls that failed (cut)"), said


@check
def a_stream_that_breaks_raises():
    stream = streamed("demo", "fail cut python streamed")
    assert stream.error is not None and not stream.finishes, (stream.error, stream.finishes)
    raised(openai.InternalServerError, lambda: ask("demo", "fail 401 python"))


if __name__ == "__main__":
    main()
