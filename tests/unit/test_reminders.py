"""Reminders: which are planned when a question is asked, and that each is told once, while the question is open."""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from stepagent import asking, delivering, notifying, reminders
from stepagent.answering import answer, read_interaction
from stepagent.asking import ask
from stepagent.clock import now
from stepagent.delivering import close_question
from stepagent.errors import NotFound
from stepagent.messages import CallId
from stepagent.reminders import remind
from stepagent.runs import Call, CallAddress, InteractionId, Run, RunId
from stepagent.store import questions as store
from stepagent.store.calls import load_call
from stepagent.store.journal import read_events
from stepagent.store.runs import require_run
from tests.builders import OWNER, RUN_ID, a_call, a_run, a_tool
from tests.functions import load
from tests.recorded import begin
from tests.tables import empty_tables, tables_in_memory

CHILD_ID = RunId("run_0child_1")
ASK = a_tool("ask", kind="interactive", target="", parameters={"type": "object"}, remind_after_s=[600, 1200])
SEND = a_tool("send", approval="always", approval_timeout_s=60, remind_after_s=[30])
LATER = timedelta(minutes=10)


class Plans:
    """The schedules that were made. Stands for `notifying.schedule_reminder`."""

    def __init__(self) -> None:
        self.made: dict[str, datetime] = {}

    def make(self, question: InteractionId, number: int, at: datetime) -> None:
        self.made.setdefault(f"{question}-{number}", at)


@pytest.fixture(scope="module", autouse=True)
def _tables() -> Iterator[None]:
    with tables_in_memory():
        yield


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> Plans:
    """Nothing in the record, and a loop that waits for every token."""
    empty_tables()
    for module in (delivering, asking):
        monkeypatch.setattr(module, "resume_execution", lambda *_: True)
    planned = Plans()
    monkeypatch.setattr(reminders, "schedule_reminder", planned.make)
    return planned


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is put on the bus."""
    kinds: list[str] = []
    monkeypatch.setattr("stepagent.announcing.notify", lambda told, interaction: kinds.append(told))
    return kinds


def a_question(**changes: Any) -> Call:
    values: dict[str, Any] = {
        "name": "ask",
        "kind": "interactive",
        "timeout_s": 3600,
        "arguments": {"question": "Which?"},
    }
    return a_call(**(values | changes))


def begun(call: Call, run_id: RunId = RUN_ID, **changes: Any) -> Run:
    """A run whose first turn made this call."""
    return begin(a_run(ASK, SEND, a_tool(), run_id=run_id, created_at=now(), **changes), call)


def asked(call: Call | None = None, run_id: RunId = RUN_ID, **changes: Any) -> InteractionId:
    """A question that waits."""
    call = call or a_question()
    begun(call, run_id, **changes)
    ask(run_id, call.call_id, "token")
    question = load_call(require_run(run_id).key, call.key).question
    assert question
    return question


def types(run_id: RunId = RUN_ID) -> list[str]:
    return [event.type for event in read_events(run_id, 0) if event.type.startswith("interaction")]


def statuses(question: InteractionId) -> list[str]:
    return [change.status for change in read_interaction(question, OWNER).history]


# ---- planned


def test_reminders_of_a_tool_are_planned_when_its_question_is_asked(plans: Plans) -> None:
    question = asked()
    created = read_interaction(question, OWNER).created_at
    assert plans.made == {f"{question}-1": created + LATER, f"{question}-2": created + 2 * LATER}


def test_reminder_is_planned_when_a_call_waits_for_approval(plans: Plans) -> None:
    question = asked(a_call(name="send", needs_approval=True))
    assert list(plans.made) == [f"{question}-1"]


def test_nothing_is_planned_when_the_tool_reminds_nobody(plans: Plans) -> None:
    asked(a_call(name="search", needs_approval=True))
    assert plans.made == {}


def test_reminders_that_are_not_past_are_planned_again_when_the_state_is_entered_anew(
    plans: Plans, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = asked()
    plans.made.clear()
    moment = now() + LATER
    monkeypatch.setattr(reminders, "now", lambda: moment)
    ask(RUN_ID, "call_1_1_0", "new token")
    assert list(plans.made) == [f"{question}-2"]


def test_reminder_is_left_out_when_the_question_expires_before(plans: Plans) -> None:
    asked(a_question(timeout_s=700))
    assert len(plans.made) == 1


def test_question_is_asked_when_no_reminder_can_be_planned(
    plans: Plans, monkeypatch: pytest.MonkeyPatch, set_environment: Callable[..., None]
) -> None:
    set_environment(REMINDER_GROUP="g", AWS_ENDPOINT_URL="http://127.0.0.1:9")
    monkeypatch.setattr(reminders, "schedule_reminder", notifying.schedule_reminder)
    notifying.scheduler.cache_clear()
    question = asked()
    notifying.scheduler.cache_clear()
    assert answer(question, OWNER, "blue").answer == "blue"


# ---- told


def test_followers_history_and_others_are_told_when_a_question_still_waits(plans: Plans, told: list[str]) -> None:
    question = asked()
    assert remind(question, 1)
    assert types() == ["interaction.required", "interaction.reminder"]
    assert statuses(question) == ["pending", "reminded"]
    assert told == ["Interaction Required", "Interaction Reminder"]


def test_question_waits_as_before_when_its_owner_was_reminded(plans: Plans) -> None:
    question = asked()
    remind(question, 1)
    assert read_interaction(question, OWNER).status == "pending"
    assert answer(question, OWNER, "blue").answer == "blue"
    assert statuses(question) == ["pending", "reminded", "answered"]


def test_reminder_is_told_once_when_it_fires_twice(plans: Plans) -> None:
    question = asked()
    assert [remind(question, 1), remind(question, 1), remind(question, 2)] == [True, False, True]
    assert types().count("interaction.reminder") == 2


def test_nobody_is_reminded_when_the_question_was_answered(plans: Plans, told: list[str]) -> None:
    question = asked()
    answer(question, OWNER, "blue")
    assert not remind(question, 1)
    assert "Interaction Reminder" not in told
    assert statuses(question) == ["pending", "answered"]


def test_nobody_is_reminded_when_the_question_was_closed(plans: Plans) -> None:
    question = asked()
    close_question(question)
    assert not remind(question, 1)
    assert types() == ["interaction.required", "interaction.resolved"]


def test_nobody_is_reminded_when_the_answer_comes_in_between(plans: Plans, monkeypatch: pytest.MonkeyPatch) -> None:
    question = asked()
    note = store.note_reminder

    def after_the_answer(*arguments: Any) -> Any:
        answer(question, OWNER, "blue")
        return note(*arguments)

    monkeypatch.setattr(reminders, "note_reminder", after_the_answer)
    assert not remind(question, 1)
    assert statuses(question) == ["pending", "answered"]


def test_nobody_is_reminded_when_the_question_has_expired(plans: Plans, monkeypatch: pytest.MonkeyPatch) -> None:
    question = asked()
    moment = now() + timedelta(hours=1)
    monkeypatch.setattr(reminders, "now", lambda: moment)
    assert not remind(question, 1)


def test_schedule_does_no_harm_when_its_question_is_gone(plans: Plans) -> None:
    assert load("remind", "app").handler({"interaction_id": "nope", "number": 1}, None) == {}
    with pytest.raises(NotFound):
        read_interaction("nope", OWNER)


def test_both_runs_are_told_and_others_once_when_an_agent_below_asked(plans: Plans, told: list[str]) -> None:
    begun(a_call(kind="agent", name="search"))
    top = CallAddress(run_id=RUN_ID, call_id=CallId("call_1_1_0"))
    question = asked(run_id=CHILD_ID, top=top)
    remind(question, 1)
    assert types() == types(CHILD_ID) == ["interaction.required", "interaction.reminder"]
    assert told == ["Interaction Required", "Interaction Reminder"]


# ---- in a tool's row


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"remind_after_s": [60]}, "asks nobody"),
        ({"kind": "interactive", "target": "", "timeout_s": 60, "remind_after_s": [60]}, "expires after 60 s"),
        ({"approval": "always", "approval_timeout_s": 60, "remind_after_s": [10, 70]}, "expires after 60 s"),
        ({"approval": "always", "remind_after_s": [20, 10]}, "later than the one before"),
        ({"approval": "always", "remind_after_s": [10, 10]}, "later than the one before"),
        ({"approval": "always", "remind_after_s": [0]}, "greater than or equal to 1"),
        ({"approval": "always", "remind_after_s": [1, 2, 3, 4, 5, 6]}, "at most 5"),
    ],
)
def test_row_is_refused_with_the_reason_when_it_could_not_remind(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        a_tool(**changes)


def test_reminders_of_a_question_lie_within_a_day_when_its_row_says_nothing_of_time() -> None:
    assert a_tool(kind="interactive", target="", remind_after_s=[86_399]).remind_after_s == (86_399,)
