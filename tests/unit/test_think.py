"""The Think state around a turn: what it stores and returns when the model fails, over a record in memory."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from stepagent import think as subject
from stepagent.agents import Limits
from stepagent.answer_form import AnswerForm
from stepagent.clock import now
from stepagent.errors import ConfigurationError, ModelBusy, ModelKeyRefused, RecordConflict
from stepagent.llm.ask import Memory, Wishes
from stepagent.llm.registry import ModelSpec
from stepagent.llm.reply import Listener, ModelRequest, Reply
from stepagent.messages import UserMessage
from stepagent.runs import Decision, Outcome, Run, RunId, RunStatus, StopReason, TurnRecord
from stepagent.store.turns import Claim
from stepagent.think import think
from stepagent.usage import Usage
from tests.builders import RUN_ID, a_run, said


class Record:
    """The record and the journal in memory. Stands for what Think uses of `store` and `journal`."""

    def __init__(self, run: Run, attempt: int = 1, decision: Decision | None = None) -> None:
        self.run = run
        self.claim = Claim("c", attempt, decision)
        self.stored: list[TurnRecord] = []
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.ended: list[Outcome] = []
        self.wishes: list[Wishes] = []
        self.spent: list[Usage] = []
        self.said: list[tuple[str, str]] = []
        self.asked = 0

    def __enter__(self) -> "Record":
        return self

    def __exit__(self, *error: object) -> None: ...

    def emit(self, type_: str, **data: Any) -> None:
        self.events.append((type_, data))

    def text(self, fragment: str) -> None:
        self.said.append(("text", fragment))

    def reasoning(self, fragment: str) -> None:
        self.said.append(("reasoning", fragment))

    def refusal(self, fragment: str) -> None:
        self.said.append(("refusal", fragment))


Lay = Callable[..., Record]
UNPRICED = ModelSpec(name="default", provider_model="m", base_url="http://127.0.0.1/v1")


@pytest.fixture
def lay(monkeypatch: pytest.MonkeyPatch) -> Lay:
    """Makes a record of a run whose model gives these replies, or raises them."""

    def make(*replies: Reply | Exception, run: Run | None = None, **claim: Any) -> Record:
        record, waiting = Record(run or a_run(), **claim), list(replies)

        def ask(
            models: Sequence[ModelSpec], request: ModelRequest, wishes: Wishes, memory: Memory, listener: Listener
        ) -> Reply:
            record.asked += 1
            record.wishes.append(wishes)
            reply = waiting.pop(0)
            if isinstance(reply, Exception):
                raise reply
            listener.reasoning(reply.reasoning)
            if not request.form:  # what is not known to fit is shown to nobody
                listener.text(reply.text)
            return reply

        def journal(run_id: RunId) -> Record:
            return record

        monkeypatch.setattr(subject, "require_run", lambda run_id: record.run)
        monkeypatch.setattr(subject, "claim_turn", lambda run, turn, claim_id: record.claim)
        monkeypatch.setattr("stepagent.think.recent.load", lambda session: [UserMessage(text="Hi")])
        monkeypatch.setattr(subject, "store_turn", lambda run, claim_id, turn: record.stored.append(turn))
        monkeypatch.setattr(subject, "note_end", lambda journal, run, outcome: record.ended.append(outcome))
        monkeypatch.setattr(subject, "tell_others", lambda run: None)
        monkeypatch.setattr(subject, "tell_end", lambda run: record.ended.append(Outcome(run.status, run.stop_reason)))
        monkeypatch.setattr(subject, "find_model", lambda name, path: UNPRICED)
        monkeypatch.setattr(subject, "count_usage", lambda run, usage: record.spent.append(usage))
        monkeypatch.setattr(subject, "Journal", journal)
        monkeypatch.setattr(subject, "ask", ask)
        return record

    return make


def test_end_is_stored_before_it_is_told_when_the_model_answers(lay: Lay) -> None:
    record = lay(said("Hello"))
    assert think(RUN_ID, 1).next == "done"
    assert len(record.stored) == len(record.ended) == 1


def heard(record: Record) -> list[tuple[str, str]]:
    return [(kind, fragment) for kind, fragment in record.said if fragment]


def test_refusal_is_told_as_such_when_it_stands_in_the_place_of_an_answer(lay: Lay) -> None:
    record = lay(said("")._replace(refusal="I cannot."))
    think(RUN_ID, 1)
    assert heard(record) == [("refusal", "I cannot.")]


def test_answer_in_a_form_is_heard_once_and_only_when_it_is_known_to_fit(lay: Lay) -> None:
    agent = a_run().agent.model_copy(update={"answer_form": AnswerForm()})
    record = lay(said("one")._replace(reasoning="hm"), said('{"a": 1}'), run=a_run(agent=agent))
    think(RUN_ID, 1)
    assert heard(record) == [("reasoning", "hm"), ("text", '{"a": 1}')]


def test_tokens_of_both_replies_count_when_both_were_empty(lay: Lay) -> None:
    record = lay(said(""), said(""))
    assert think(RUN_ID, 1).reason == "model_reply_unusable"
    assert (record.stored[0].usage.input_tokens, record.stored[0].usage.output_tokens) == (20, 10)


@pytest.mark.parametrize(
    ("wait_s", "attempt", "waits"),
    [
        (7, 1, 7),
        (0, 1, 1),
        (None, 1, 1),
        (None, 2, 2),
        (10_000, 1, 300),
        (float("inf"), 1, 300),
        (5, 9, 5),
        (0.2, 1, 1),
    ],
)
def test_loop_waits_within_bounds_when_the_model_is_busy(
    lay: Lay, wait_s: float | None, attempt: int, waits: int
) -> None:
    record = lay(ModelBusy("busy", wait_s), attempt=attempt)
    decision = think(RUN_ID, 1)
    assert (decision.next, decision.wait_s, record.stored) == ("wait", waits, [])


def test_wait_ends_with_the_runs_time_when_the_provider_asks_for_more(lay: Lay) -> None:
    record = lay(ModelBusy("busy", 200), attempt=1)
    record.run = _started(record.run, ago_s=10, max_wall_s=40)
    assert 25 <= think(RUN_ID, 1).wait_s <= 30


def test_run_fails_when_its_time_is_over_and_the_provider_is_busy(lay: Lay) -> None:
    record = lay(ModelBusy("busy", 200), attempt=1)
    record.run = _started(record.run, ago_s=60, max_wall_s=40)
    assert think(RUN_ID, 1).next == "fail"


def _started(run: Run, ago_s: int, max_wall_s: int) -> Run:
    agent = run.agent.model_copy(update={"limits": Limits(max_wall_s=max_wall_s)})
    return run.model_copy(update={"agent": agent, "created_at": now() - timedelta(seconds=ago_s)})


@pytest.mark.parametrize(("wait_s", "attempt"), [(None, 3), (0, 3), (5, 10)])
def test_run_fails_with_the_reason_when_the_model_is_busy_for_the_last_time(
    lay: Lay, wait_s: float | None, attempt: int
) -> None:
    record = lay(ModelBusy("busy", wait_s), attempt=attempt)
    decision = think(RUN_ID, 1)
    assert (decision.next, decision.reason) == ("fail", "model_busy")
    assert record.stored[0].failure
    assert record.stored[0].failure.message == "busy"


@pytest.mark.parametrize("error", [ModelKeyRefused("no"), ConfigurationError("no")])
def test_run_fails_with_the_reason_when_waiting_does_not_help(lay: Lay, error: Exception) -> None:
    record = lay(error)
    decision = think(RUN_ID, 1)
    assert (decision.next, decision.reason) == ("fail", type(error).code)  # type: ignore[attr-defined]  # errors of ours have a code
    assert len(record.stored) == 1


def test_no_model_is_asked_when_its_price_is_not_known_and_money_is_bounded(lay: Lay) -> None:
    record = lay(said("Hello"), run=a_run(limits=Limits(max_cost_usd=Decimal(1))))
    assert (think(RUN_ID, 1).reason, record.asked) == ("configuration_error", 0)
    assert record.stored[0].failure
    assert record.stored[0].failure.message == "max_cost_usd needs the prices of default in models.yaml."


def test_decision_is_the_stored_one_when_the_turn_was_decided_before(lay: Lay) -> None:
    before = Decision(run_id=RUN_ID, turn=1, next="act")
    record = lay(decision=before)
    assert think(RUN_ID, 1) == before
    assert (record.asked, record.stored) == (0, [])


@pytest.mark.parametrize(
    ("status", "reached"), [(RunStatus.COMPLETED, "done"), (RunStatus.FAILED, "fail"), (RunStatus.CANCELLED, "fail")]
)
def test_no_model_is_asked_when_the_run_has_ended(lay: Lay, status: RunStatus, reached: str) -> None:
    record = lay(run=a_run(status=status, stop_reason=StopReason.ANSWERED))
    assert (think(RUN_ID, 2).next, record.asked) == (reached, 0)


def test_run_completes_when_the_turns_are_used_up(lay: Lay) -> None:
    record = lay(said(""), run=a_run(limits=Limits(max_turns=1)))
    assert think(RUN_ID, 2).reason == "max_turns"
    assert record.ended[0].answer


def test_tokens_count_when_the_loop_waits_after_a_reply_broke_off(lay: Lay) -> None:
    busy = ModelBusy("broken off")
    busy.usage = Usage(input_tokens=7)
    record = lay(busy)
    assert think(RUN_ID, 1).next == "wait"
    assert [usage.input_tokens for usage in record.spent] == [7]


def test_model_is_asked_as_the_agent_wishes_when_it_says_how(lay: Lay) -> None:
    run = a_run(limits=Limits(max_output_tokens=99))
    wishful = run.agent.model_copy(update={"mode": "prompt_call", "protocol": "Begin.", "temperature": 0})
    record = lay(said("ok"), run=run.model_copy(update={"agent": wishful}))
    think(RUN_ID, 1)
    assert record.wishes == [Wishes("prompt_call", "Begin.", {"max_tokens": 99, "temperature": 0})]


def test_model_is_asked_with_its_own_defaults_when_the_agent_wishes_nothing(lay: Lay) -> None:
    record = lay(said("ok"))
    think(RUN_ID, 1)
    assert record.wishes == [Wishes()]


def test_tokens_count_when_the_run_was_ended_while_the_model_answered(
    lay: Lay, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise RecordConflict("ended")

    record = lay(said("Hello"))
    monkeypatch.setattr(subject, "store_turn", refuse)
    with pytest.raises(RecordConflict):
        think(RUN_ID, 1)
    assert [usage.total_tokens for usage in record.spent] == [15]
