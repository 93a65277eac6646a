"""`@tool`: what happens around a tool's function, over a record in memory."""

import json
from datetime import date
from typing import Annotated, Any

import pytest
from pydantic import Field

from stepagent.errors import NotFound
from stepagent.runs import Call, CallKey, CallResult, CallStatus, InteractionId, Question, RunId, RunKey
from stepagent.store.calls import ClaimedCall
from stepagent.store.journal import Event
from stepagent.store.questions import StoredQuestion
from stepagent.tools import ToolError, execution, tool
from stepagent.tools.execution import record_failure
from tests.builders import NOON, OWNER, RUN_ID, a_call, a_done_call

EVENT = {"run_id": RUN_ID, "call_id": "call_1_1_0"}


class Record:
    """One call in memory. Stands for the functions of `store.calls` that an execution uses."""

    def __init__(self, call: Call, question: str | None = None) -> None:
        self.call = call
        self.question = InteractionId(question) if question else None

    def claim_call(self, run: RunKey, key: CallKey) -> ClaimedCall:
        if key != self.call.key:
            raise NotFound("no such call")
        ours = self.call.status is CallStatus.PENDING
        if ours:
            self.call = self.call.model_copy(update={"status": CallStatus.STARTED})
        return ClaimedCall(self.call, ours, self.question)

    def store_result(self, run: RunKey, key: CallKey, result: CallResult) -> bool:
        if self.call.status is CallStatus.DONE:
            return False
        self.call = self.call.model_copy(update={"status": CallStatus.DONE, "result": result})
        return True

    def load_question(self, question: InteractionId) -> StoredQuestion:
        asked = Question(
            interaction_id=question,
            run_id=RUN_ID,
            call_id=self.call.call_id,
            tool=self.call.name,
            owner=OWNER,
            type="text",
            description="Which?",
            created_at=NOON,
            expires_at=NOON,
        )
        return StoredQuestion(asked, "token", closed=True)

    def settle_question(self, question: Question) -> None:
        self.question = None


class Journal:
    """Keeps what is emitted. Stands for `stepagent.journal.Journal`."""

    events: list[Event]

    def __init__(self, run_id: RunId) -> None:
        self.run_id = run_id

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, *error: object) -> None: ...

    def emit(self, type_: str, **data: Any) -> None:
        self.events.append(Event(len(self.events) + 1, type_, "", data))


@pytest.fixture(autouse=True)
def events(monkeypatch: pytest.MonkeyPatch) -> list[Event]:
    monkeypatch.setattr(Journal, "events", [], raising=False)
    monkeypatch.setattr(execution, "Journal", Journal)
    return Journal.events


def recorded(monkeypatch: pytest.MonkeyPatch, call: Call, question: str | None = None) -> Record:
    record = Record(call, question)
    for name in ("claim_call", "store_result", "load_question", "settle_question"):
        monkeypatch.setattr(execution, name, getattr(record, name))
    return record


def result_of(record: Record) -> tuple[str, bool]:
    assert record.call.result
    return record.call.result.text, record.call.result.is_error


class Runs:
    """Counts how often the tool's function ran."""

    def __init__(self) -> None:
        self.count = 0

    def run(self, q: str = "") -> str:
        self.count += 1
        return "ran"


@tool
def measure(
    length: Annotated[int, Field(ge=0)], unit: str = "cm", day: date | None = None, tags: list[str] | None = None
) -> dict[str, Any]:
    return {"length": length, "unit": unit, "day": day, "tags": tags}


def measured(monkeypatch: pytest.MonkeyPatch, arguments: dict[str, Any]) -> tuple[str, bool]:
    record = recorded(monkeypatch, a_call(arguments=arguments))
    measure(EVENT, None)
    return result_of(record)


def test_function_gets_its_types_when_arguments_are_json(monkeypatch: pytest.MonkeyPatch) -> None:
    text, is_error = measured(monkeypatch, {"length": 5, "day": "2030-01-02", "tags": ["a"]})
    assert not is_error
    assert json.loads(text) == {"length": 5, "unit": "cm", "day": "2030-01-02", "tags": ["a"]}


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, "length: Field required"),
        ({"length": -1}, "length: Input should be greater than or equal to 0"),
        ({"length": "many"}, "length: Input should be a valid integer"),
        ({"length": 1, "width": 2}, "width: Extra inputs are not permitted"),
        ({"length": 1, "tags": ["a", 5]}, "tags.1: Input should be a valid string"),
    ],
)
def test_function_does_not_run_when_arguments_do_not_fit_its_types(
    monkeypatch: pytest.MonkeyPatch, arguments: dict[str, Any], problem: str
) -> None:
    text, is_error = measured(monkeypatch, arguments)
    assert is_error
    assert problem in text


def test_function_can_be_called_as_it_was_written_when_it_is_a_tool() -> None:
    assert measure.function(length=1)["unit"] == "cm"


def test_handler_gives_the_call_id_alone_when_it_has_run(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded(monkeypatch, a_call(arguments={"length": 1}))
    assert measure(EVENT, None) == {"call_id": "call_1_1_0"}


def test_start_and_end_are_told_with_the_id_when_a_call_runs(
    monkeypatch: pytest.MonkeyPatch, events: list[Event]
) -> None:
    recorded(monkeypatch, a_call())
    tool(Runs().run)(EVENT, None)
    assert [(event.type, event.data["id"]) for event in events] == [
        ("tool.started", "call_1_1_0"),
        ("tool.completed", "call_1_1_0"),
    ]


def test_message_becomes_the_result_when_the_tool_says_it_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    @tool
    def refuse(q: str) -> None:
        raise ToolError("No such city.")

    record = recorded(monkeypatch, a_call())
    refuse(EVENT, None)
    assert result_of(record) == ("No such city.", True)


def test_exception_becomes_the_result_when_the_tool_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    @tool
    def fail(q: str) -> None:
        raise ZeroDivisionError("by zero")

    record = recorded(monkeypatch, a_call())
    fail(EVENT, None)
    assert result_of(record) == ("ZeroDivisionError: by zero", True)


def test_result_says_so_when_the_value_has_no_json_form(monkeypatch: pytest.MonkeyPatch) -> None:
    @tool
    def odd(q: str) -> object:
        return object()

    record = recorded(monkeypatch, a_call())
    odd(EVENT, None)
    assert result_of(record) == ("TypeError: A value of type object has no JSON form.", True)


def test_error_is_cut_when_the_tool_raises_a_long_one(monkeypatch: pytest.MonkeyPatch) -> None:
    @tool
    def rant(q: str) -> None:
        raise ToolError("x" * 10_000)

    record = recorded(monkeypatch, a_call(result_limit_bytes=256))
    rant(EVENT, None)
    assert len(result_of(record)[0]) < 400


@pytest.mark.parametrize("value", [0, False, None, "", []])
def test_falsy_value_is_a_result_when_the_tool_returns_it(monkeypatch: pytest.MonkeyPatch, value: object) -> None:
    @tool
    def falsy(q: str) -> object:
        return value

    record = recorded(monkeypatch, a_call())
    falsy(EVENT, None)
    assert result_of(record)[0]
    assert not result_of(record)[1]


@pytest.mark.parametrize("idempotent", [False, True])
def test_nothing_runs_and_the_result_stands_when_the_call_is_done(
    monkeypatch: pytest.MonkeyPatch, events: list[Event], idempotent: bool
) -> None:
    record, runs = recorded(monkeypatch, a_done_call("before", idempotent=idempotent)), Runs()
    tool(runs.run)(EVENT, None)
    assert (runs.count, result_of(record), events) == (0, ("before", False), [])


def test_call_is_interrupted_when_it_began_before_and_may_not_be_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    record, runs = recorded(monkeypatch, a_call(status=CallStatus.STARTED)), Runs()
    tool(runs.run)(EVENT, None)
    assert runs.count == 0
    assert result_of(record)[0].startswith("Interrupted")
    assert result_of(record)[1]


def test_call_runs_again_when_it_began_before_and_is_idempotent(monkeypatch: pytest.MonkeyPatch) -> None:
    record, runs = recorded(monkeypatch, a_call(status=CallStatus.STARTED, idempotent=True)), Runs()
    tool(runs.run)(EVENT, None)
    assert (runs.count, result_of(record)) == (1, ("ran", False))


def test_late_result_is_dropped_when_the_call_was_given_one_meanwhile(
    monkeypatch: pytest.MonkeyPatch, events: list[Event]
) -> None:
    record = recorded(monkeypatch, a_call())

    @tool
    def slow(q: str) -> str:
        record.call = a_done_call("timed out", is_error=True)
        return "too late"

    slow(EVENT, None)
    assert result_of(record) == ("timed out", True)
    assert [event.type for event in events] == ["tool.started"]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("States.Timeout", "did not answer in time"),
        ("Sandbox.Timedout", "did not answer in time"),
        ("Lambda.ResourceNotFoundException", "does not exist"),
        ("Lambda.Unknown", "Lambda.Unknown"),
    ],
)
def test_call_gets_a_result_when_its_function_could_not_give_one(
    monkeypatch: pytest.MonkeyPatch, error: str, words: str
) -> None:
    record = recorded(monkeypatch, a_call(status=CallStatus.STARTED))
    record_failure(RUN_ID, "call_1_1_0", error)
    assert words in result_of(record)[0]
    assert result_of(record)[1]


def test_earlier_result_stands_when_a_failure_is_recorded_after_it(
    monkeypatch: pytest.MonkeyPatch, events: list[Event]
) -> None:
    record = recorded(monkeypatch, a_done_call("before"))
    record_failure(RUN_ID, "call_1_1_0", "States.Timeout")
    assert (result_of(record), events) == (("before", False), [])


def test_question_expires_when_nobody_answered_in_time(monkeypatch: pytest.MonkeyPatch, events: list[Event]) -> None:
    record = recorded(monkeypatch, a_call(status=CallStatus.STARTED), question="q1")
    monkeypatch.setattr(execution, "close_question", lambda question: True)
    record_failure(RUN_ID, "call_1_1_0", "States.Timeout")
    assert (result_of(record), record.question) == (("Nobody answered in time.", True), None)
    assert [event.type for event in events] == ["tool.completed", "interaction.resolved"]


def test_answer_becomes_the_result_when_it_arrived_at_the_moment_of_expiry(monkeypatch: pytest.MonkeyPatch) -> None:
    settled: list[InteractionId] = []
    record = recorded(monkeypatch, a_call(status=CallStatus.STARTED), question="q1")
    monkeypatch.setattr(execution, "close_question", lambda question: False)
    monkeypatch.setattr(execution, "settle", settled.append)
    record_failure(RUN_ID, "call_1_1_0", "States.Timeout")
    assert (settled, record.call.status) == (["q1"], CallStatus.STARTED)
