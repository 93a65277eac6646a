"""How runs end, whoever ends them: each is counted, and told to whoever waits for it, whatever dies on the way."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from stepagent import cancelling, delegation, ending, think
from stepagent.cancelling import cancel_run
from stepagent.catalog import FoundAgent
from stepagent.clock import now
from stepagent.delegation import start_workflow, sub_run_of
from stepagent.ending import finalize, tell_end
from stepagent.errors import RecordUnavailable
from stepagent.messages import AssistantMessage
from stepagent.replies import promise
from stepagent.replies.reply_to import ReplyTo
from stepagent.runs import (
    ENDED,
    CallAddress,
    Decision,
    Outcome,
    Run,
    RunId,
    RunStatus,
    StopReason,
    TurnRecord,
)
from stepagent.store.journal import LAST_EVENTS, read_events
from stepagent.store.runs import close_run, require_run
from stepagent.store.turns import claim_turn, store_turn
from tests.builders import RUN_ID, a_call, a_run, a_tool
from tests.disturbance import Disturbance, crash
from tests.recorded import NOTHING_SPENT, begin
from tests.tables import empty_tables, tables_in_memory

WANTED = ReplyTo(s3_prefix="replies")
CHILD: dict[str, Any] = {
    "run_id": RunId("run_0child_1"),
    "parent": CallAddress(run_id=RUN_ID, call_id=a_call().call_id),
    "depth": 1,
}


class Told:
    """What was promised and put on the bus. Stands for both, and for executions that are stopped."""

    def __init__(self) -> None:
        self.promised: list[str] = []
        self.heard: list[str] = []
        self.stopped: list[object] = []
        self.refusals = 0

    def promise(self, url: str, body: str) -> None:
        if self.refusals:
            self.refusals -= 1
            raise RecordUnavailable("SQS did not take a request (ServiceUnavailable).")
        self.promised.append(json.loads(body)["run_id"])

    def notify(self, run: Run) -> None:
        self.heard.append(f"{run.run_id} {run.status}")


@pytest.fixture(scope="module")
def disturbance() -> Iterator[Disturbance]:
    with tables_in_memory():
        yield Disturbance()


@pytest.fixture
def told(disturbance: Disturbance, monkeypatch: pytest.MonkeyPatch) -> Told:
    found = Told()
    monkeypatch.setattr(promise, "send_to_own_queue", found.promise)
    monkeypatch.setattr(ending, "notify_end", found.notify)
    monkeypatch.setattr(cancelling, "stop_execution", found.stopped.append)
    return found


def begun(**changes: Any) -> Run:
    """A run that wants a reply, in a record that holds nothing else."""
    empty_tables()
    return begin(a_run(created_at=now(), reply_to=WANTED, **changes))


def answered() -> None:
    """A run that has stored its answer, and told nobody."""
    run = begun()
    outcome = Outcome(RunStatus.COMPLETED, StopReason.ANSWERED, "Done.")
    record = TurnRecord(
        Decision(run_id=RUN_ID, turn=1, next="done"), AssistantMessage(text="Done."), (), NOTHING_SPENT, outcome
    )
    store_turn(run, claim_turn(run, 1, "claim").claim_id, record)


def fail() -> None:
    finalize(RUN_ID, "ABORTED")


def cancel() -> None:
    cancel_run(RUN_ID)


def think_again() -> None:
    think.think(RUN_ID, 1)


WAYS = [(begun, fail), (begun, cancel), (answered, think_again), (answered, fail)]


@pytest.mark.parametrize(("prepare", "end"), WAYS, ids=lambda step: step.__name__)
def test_end_is_told_to_all_when_whoever_ends_the_run_dies_anywhere(
    told: Told, disturbance: Disturbance, prepare: Callable[[], object], end: Callable[[], None]
) -> None:
    def prepare_anew() -> None:
        prepare()
        told.promised.clear()
        told.heard.clear()

    for _ in disturbance.everywhere(crash, prepare_anew, end):
        run = require_run(RUN_ID)
        assert run.status in ENDED
        assert set(told.promised) == {RUN_ID}
        assert set(told.heard) == {f"{RUN_ID} {run.status}"}
        assert [event.type for event in read_events(RUN_ID, 0) if event.type in LAST_EVENTS] == [f"run.{run.status}"]


@pytest.mark.parametrize(("prepare", "end"), WAYS, ids=lambda step: step.__name__)
def test_end_is_told_again_when_its_reply_could_not_be_promised(
    told: Told, prepare: Callable[[], object], end: Callable[[], None]
) -> None:
    prepare()
    told.refusals = 1
    with pytest.raises(RecordUnavailable):  # for which the state is entered again
        end()
    end()
    assert (told.promised, len(told.heard)) == ([RUN_ID], 1)


def test_cancelled_run_is_stopped_when_its_reply_could_not_be_promised(told: Told) -> None:
    begun()
    told.refusals = 1
    with pytest.raises(RecordUnavailable):
        cancel()
    assert len(told.stopped) == 1  # so that the rule hears of it, and tells


@pytest.mark.parametrize("end", [fail, cancel])
def test_end_is_told_once_when_several_hear_of_it(told: Told, end: Callable[[], None]) -> None:
    begun()
    end()
    fail()  # the rule on executions that died
    cancel()
    assert (told.promised, len(told.heard)) == ([RUN_ID], 1)


def test_end_of_a_called_agents_run_is_not_told_to_the_world(told: Told) -> None:
    empty_tables()
    begin(a_run(a_tool("helper", kind="agent", target="aide"), created_at=now()), a_call(name="helper", kind="agent"))
    child = begin(a_run(created_at=now(), session_id="sub", **CHILD))
    finalize(child.run_id, "ABORTED")
    assert (told.promised, told.heard) == ([], [])


def test_run_without_a_place_for_its_reply_promises_none(told: Told) -> None:
    empty_tables()
    begin(a_run(created_at=now()))
    fail()
    assert (told.promised, told.heard) == ([], [f"{RUN_ID} failed"])


def test_end_of_a_completed_run_costs_no_write_beside_its_events(told: Told) -> None:
    answered()
    tell_end(require_run(RUN_ID))
    assert not require_run(RUN_ID).told


# ---- counts


def counted(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The agents and reasons of the runs that were counted."""
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines() if "RunsEnded" in line]
    return [f"{line['agent']} {line['stop_reason']}" for line in lines]


def test_run_is_counted_once_when_it_is_ended_several_times(told: Told, capsys: pytest.CaptureFixture[str]) -> None:
    begun()
    for end in (cancel, fail, cancel):
        end()
    assert counted(capsys) == ["helper cancelled"]


def test_run_of_an_agent_is_counted_when_its_caller_ended(
    told: Told, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = begun()
    child = begin(a_run(created_at=now(), session_id="sub", **CHILD))
    close_run(parent, Outcome(RunStatus.FAILED, StopReason.FAILED))
    monkeypatch.setattr(think, "run_turn", lambda *_: pytest.fail("a model was asked"))
    think.think(child.run_id, 1)
    assert counted(capsys) == ["helper cancelled"]


def test_run_of_an_agent_is_counted_when_its_call_was_over_before_it_began(
    told: Told, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    empty_tables()
    call = a_call(name="helper", kind="agent", arguments={"task": "find it"})
    parent = begin(a_run(a_tool("helper", kind="agent", target="aide"), created_at=now()), call)
    aide = FoundAgent(a_run().agent.model_copy(update={"name": "aide"}), (a_tool(),), {})
    monkeypatch.setattr(delegation, "find_agent", lambda name: aide)
    monkeypatch.setattr(delegation, "start_execution", lambda *_: pytest.fail("an execution was started"))
    for module in ("delegation", "returning"):
        monkeypatch.setattr(f"stepagent.{module}.resume_execution", lambda token: True)
    close_run(parent, Outcome(RunStatus.FAILED, StopReason.FAILED))
    start_workflow(RUN_ID, call.call_id, "token")
    child = require_run(sub_run_of(parent.key, call.key))
    assert (child.status, counted(capsys)) == (RunStatus.CANCELLED, ["aide cancelled"])
    assert read_events(child.run_id, 0)[-1].type == "run.cancelled"
