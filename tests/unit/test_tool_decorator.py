"""`@tool`: what happens around a tool's function, over a record in memory."""

import asyncio
import json
from dataclasses import FrozenInstanceError, replace
from datetime import date, timedelta
from typing import Annotated, Any

import pytest
from pydantic import Field

from stepagent.clock import now
from stepagent.errors import NotFound
from stepagent.runs import Call, CallKey, CallResult, CallStatus, RunId, RunKey
from stepagent.store.calls import ClaimedCall
from stepagent.store.journal import Event
from stepagent.tools import ToolContext, ToolError, execution, tool
from tests.builders import NOON, OWNER, RUN_ID, a_call, a_done_call

EVENT = {"run_id": RUN_ID, "call_id": "call_1_1_0"}


class Record:
    """One call in memory. Stands for the functions of the store that an execution uses."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.kept = b""

    def claim_call(self, run: RunKey, key: CallKey) -> ClaimedCall:
        if key != self.call.key:
            raise NotFound("no such call")
        ours = self.call.status is CallStatus.PENDING
        if ours:
            self.call = self.call.model_copy(update={"status": CallStatus.STARTED})
        return ClaimedCall(self.call, ours)

    def store_result(self, run: RunKey, key: CallKey, result: CallResult) -> bool:
        if self.call.status is CallStatus.DONE:
            return False
        self.call = self.call.model_copy(update={"status": CallStatus.DONE, "result": result})
        return True

    def keep_result(self, run: RunKey, key: CallKey, text_bytes: bytes) -> None:
        self.kept = text_bytes


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


def recorded(monkeypatch: pytest.MonkeyPatch, call: Call) -> Record:
    record = Record(call)
    for name in ("claim_call", "store_result", "keep_result"):
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


@tool
def tell(q: str, context: ToolContext, unit: str = "cm") -> dict[str, Any]:
    return {
        "q": q,
        "unit": unit,
        "ids": [context.run_id, context.session, context.call_id],
        "caller": context.caller,
        "key": context.idempotency_key,
        "in_time": 0 < context.remaining_s <= 7,
    }


def test_function_is_told_whose_call_it_answers_when_it_takes_a_context(monkeypatch: pytest.MonkeyPatch) -> None:
    record = recorded(monkeypatch, a_call(caller=OWNER, timeout_s=7))
    tell(EVENT, None)
    assert json.loads(result_of(record)[0]) == {
        "q": "x",
        "unit": "cm",
        "ids": [RUN_ID, "abc", "call_1_1_0"],
        "caller": OWNER,
        "key": f"{RUN_ID}/call_1_1_0",
        "in_time": True,
    }


def test_context_is_no_argument_that_a_model_is_told_of_or_can_give(monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(tell.parameters["properties"]) == ["q", "unit"]
    record = recorded(monkeypatch, a_call(arguments={"q": "x", "context": {"caller": "somebody"}}))
    tell(EVENT, None)
    assert result_of(record) == ("The arguments do not fit: context: Extra inputs are not permitted", True)


def test_bound_value_wins_when_the_model_gives_the_same_argument(monkeypatch: pytest.MonkeyPatch) -> None:
    record = recorded(monkeypatch, a_call(arguments={"q": "x", "unit": "mile"}, bound={"unit": "km"}))
    tell(EVENT, None)
    assert json.loads(result_of(record)[0])["unit"] == "km"


def test_bound_value_is_validated_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    record = recorded(monkeypatch, a_call(arguments={"length": 1}, bound={"day": "never"}))
    measure(EVENT, None)
    text, is_error = result_of(record)
    assert is_error
    assert text.startswith("The arguments do not fit: day: ")


def a_context(**changes: Any) -> ToolContext:
    run = RunKey.parse(RUN_ID)
    return replace(ToolContext(RUN_ID, run.session, a_call().call_id, OWNER, NOON), **changes)


@pytest.mark.parametrize("hint", [ToolContext, ToolContext | None, Annotated[ToolContext, "ours"], "ToolContext"])
def test_context_is_known_however_its_type_is_written(hint: Any) -> None:
    def whose(given: Any) -> Any:
        return given

    whose.__annotations__ = {"given": hint}
    made = tool(whose)
    assert made.parameters["properties"] == {}
    assert made.run({}, a_context()) == a_context()


def test_context_keeps_its_place_when_arguments_cannot_be_named() -> None:
    @tool
    def place(first: int, context: ToolContext, second: int, /, *, third: int) -> Any:
        return first, context.caller, second, third

    assert place.run({"first": 1, "second": 2, "third": 3}, a_context()) == (1, OWNER, 2, 3)


def test_tool_says_so_when_it_is_run_without_the_context_that_it_takes() -> None:
    with pytest.raises(TypeError, match="tell takes a ToolContext"):
        tell.run({"q": "x"})


def test_context_stays_as_it_is_when_a_function_changes_it() -> None:
    with pytest.raises(FrozenInstanceError):
        a_context().caller = OWNER  # type: ignore[misc]  # what is tested


def test_no_time_remains_when_the_deadline_is_over() -> None:
    assert a_context(deadline=now() - timedelta(hours=1)).remaining_s == 0
    assert 3590 < a_context(deadline=now() + timedelta(hours=1)).remaining_s <= 3600


def test_result_of_an_async_function_is_stored_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    @tool
    async def later(q: str) -> str:
        await asyncio.sleep(0)
        return f"{q} later"

    record = recorded(monkeypatch, a_call())
    later(EVENT, None)
    assert result_of(record) == ("x later", False)


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
    text, is_error = result_of(record)
    assert is_error
    assert text == "The tool ran, but its result cannot be shown: a value of type object has no JSON form."


@pytest.mark.parametrize("is_error", [False, True])
def test_model_sees_a_preview_and_the_whole_is_kept_when_a_result_is_long(
    monkeypatch: pytest.MonkeyPatch, is_error: bool
) -> None:
    @tool
    def rant(q: str) -> str:
        if is_error:
            raise ToolError("中" * 10_000)
        return "中" * 10_000

    record = recorded(monkeypatch, a_call(result_limit_bytes=256))
    rant(EVENT, None)
    text, was_error = result_of(record)
    assert (len(text.encode()) <= 256, was_error) == (True, is_error)
    assert "read_result" in text
    assert record.kept.decode() == "中" * 10_000


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
