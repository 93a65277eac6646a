"""The verdict on a task of a soak: what is lost, done twice or wrong is found, and what has an honest reason is not."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pytest

from stepagent.delegation import sub_run_of
from stepagent.runs import Call, CallStatus, Failure, Run, RunId, RunKey, RunStatus, StopReason
from stepagent.store.journal import Event
from stepagent.store.runs import Session
from tests.builders import a_call, a_done_call, a_run
from tests.soak import verdict
from tests.soak.tasks import Kind, Task, answer_of, make_tasks
from tests.soak.traffic import run_of
from tests.soak.verdict import Verdict, judge

INTERRUPTED = "Interrupted: the call began and did not end. Its effects are unknown: check before you repeat it."
DIED = "The tool failed (Runtime.ExitError). Its effects are unknown: check before you repeat it."
BROKE_OFF = Failure(code="model_reply_unusable", message="The server of model 'soak' (soak) broke the connection off.")
STALLED = Failure(code="model_reply_unusable", message="The model's stream brought no data for 2 s.")
BUSY = Failure(code="model_busy", message="The model is busy.")
ALL_DIED = Failure(code="internal_error", message="A step of the run failed (Runtime.ExitError). The logs say why.")
TIMED_OUT = Failure(code="internal_error", message="A step of the run took longer than it may.")


class Kept(NamedTuple):
    """A run with its calls and what its journal tells. Stands for what the record keeps of it."""

    run: Run
    calls: Sequence[Call] = ()
    events: Sequence[tuple[str, Mapping[str, Any]]] = (("run.completed", {}),)
    runs: int = 1  # of its session


@pytest.fixture
def keep(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Lets the verdict read these runs in place of the record."""

    def kept(*all_kept: Kept) -> None:
        by_session = {each.run.key.session: each for each in all_kept}

        def load_run(key: RunKey) -> Run | None:
            return by_session[key.session].run if key.session in by_session else None

        def read_events(run_id: RunId, after: int) -> list[Event]:
            told = by_session[RunKey.parse(run_id).session].events
            return [Event(n, type_, "", dict(data)) for n, (type_, data) in enumerate(told, after + 1)]

        monkeypatch.setattr(verdict, "load_run", load_run)
        monkeypatch.setattr(verdict, "read_events", read_events)
        monkeypatch.setattr(verdict, "load_history", lambda session: by_session[session].calls)
        monkeypatch.setattr(verdict, "load_session", lambda session: Session(by_session[session].runs, None))

    return kept


def a_task(kind: Kind) -> Task:
    return next(task for task in make_tasks(1, 100) if task.kind == kind)


TOOLS, AGENT, PERSON, PLAN = a_task("tools"), a_task("agent"), a_task("person"), a_task("plan")


def values(task: Task, *without: str) -> dict[str, int]:
    return {part.name: part.value for part in task.parts if part.name not in without}


def charged(task: Task) -> dict[str, int]:
    return {f"sleep {task.written(part)}": 1 for part in task.parts}


def answered(task: Task, *unknown: str) -> Run:
    """The run of a task that it answered, with these parts unknown."""
    answer = answer_of(task, values(task, *unknown))
    ended: dict[str, Any] = {"status": RunStatus.COMPLETED, "stop_reason": StopReason.ANSWERED, "answer": answer}
    return a_run(run_id=run_of(task).run_id, **ended)


def failed(task: Task, failure: Failure | None) -> Run:
    ended: dict[str, Any] = {"status": RunStatus.FAILED, "stop_reason": StopReason.FAILED, "failure": failure}
    return a_run(run_id=run_of(task).run_id, turns=2, **ended)


TEXT = ("message.delta", {"text": "x"})


def tries(times: int, turn: int = 2) -> list[tuple[str, dict[str, Any]]]:
    """What the journal tells of a turn that is tried so many times."""
    return [("turn.started", {"turn": turn, "attempt": attempt}) for attempt in range(1, times + 1)]


def child_of(run: Run, call: Call, **changes: Any) -> Run:
    ended = {"status": RunStatus.COMPLETED, "stop_reason": StopReason.ANSWERED, "answer": "Done."}
    return a_run(run_id=sub_run_of(run.key, call.key), **{**ended, **changes})


def call_for(task: Task, name: str, told: str, **changes: Any) -> Call:
    """The call for a part, with what it was told."""
    part = next(part for part in task.parts if part.name == name)
    return a_done_call(told, **{"arguments": {"value": task.written(part)}, **changes})


def consulted(told: str = "n") -> Call:
    return a_done_call(told, name="consult_soaker", kind="agent", arguments={"task": f"charge {AGENT.label}.b"})


def stepped(name: str, told: str, position: int = 0) -> Call:
    facts = {"step": name, "title": "", "attempt": 1, "task": f"charge {PLAN.label}.a, {PLAN.label}.b"}
    return a_done_call(told, position, kind="step", arguments=facts)


def found(verdict: Verdict) -> list[str]:
    return [*verdict.lost, *verdict.duplicated, *verdict.wrong]


@pytest.mark.parametrize("task", [TOOLS, AGENT, PERSON, PLAN])
def test_nothing_is_found_when_a_run_answered_and_all_was_done_once(task: Task, keep: Any) -> None:
    keep(Kept(answered(task)))
    assert found(judge(task, charged(task))) == []


@pytest.mark.parametrize(
    ("failure", "met", "disturbances"),
    [
        (BROKE_OFF, {"model cuts its stream"}, 0),
        (STALLED, {"model stalls", "model 429"}, 0),
        (BUSY, {"model 500"}, 2),
        (ALL_DIED, set[str](), 5),
    ],
)
def test_failure_that_a_fault_of_its_own_explains_is_not_wrong(
    failure: Failure, met: set[str], disturbances: int, keep: Any
) -> None:
    keep(Kept(failed(TOOLS, failure), events=[*tries(3), TEXT, ("run.failed", {})]))
    judged = judge(TOOLS, {}, met)
    assert (found(judged), judged.disturbances) == ([], disturbances)


def test_busy_model_explains_no_failure_when_it_was_asked_too_few_times(keep: Any) -> None:
    earlier = tries(3, turn=1)
    keep(Kept(failed(TOOLS, BUSY), events=[*earlier, *tries(2), ("run.failed", {})]))
    assert [what for what in judge(TOOLS, {}, {"model 500"}).wrong if "failed (" in what]


@pytest.mark.parametrize(
    ("failure", "met"),
    [
        (BROKE_OFF, set[str]()),
        (BROKE_OFF, {"model stalls", "model 429", "model 500", "model is slow"}),
        (STALLED, {"model cuts its stream"}),
        (BUSY, set[str]()),
        (TIMED_OUT, {"model stalls"}),
        (
            Failure(code="model_reply_unusable", message="The model's reply was empty, twice."),
            {"model cuts its stream"},
        ),
        (Failure(code="internal_error", message="A step of the run failed (KeyError)."), {"model 500"}),
        (Failure(code="configuration_error", message="There is no model."), {"model 500"}),
        (None, {"model 500"}),
    ],
)
def test_failure_that_nothing_explains_is_wrong(failure: Failure | None, met: set[str], keep: Any) -> None:
    keep(Kept(failed(TOOLS, failure), events=[*tries(3), TEXT, ("run.failed", {})]))
    assert [what for what in judge(TOOLS, {}, met).wrong if "failed (" in what]


@pytest.mark.parametrize("told", [[*tries(1)], [TEXT, *tries(1)], [*tries(1), ("message.delta", {"reasoning": "x"})]])
def test_broken_stream_explains_no_failure_when_no_text_of_it_was_seen(told: list[Any], keep: Any) -> None:
    keep(Kept(failed(TOOLS, BROKE_OFF), events=[*told, ("run.failed", {})]))
    assert [what for what in judge(TOOLS, {}, {"model cuts its stream"}).wrong if "failed (" in what]


def test_failure_of_a_called_agents_run_is_judged_as_well(keep: Any) -> None:
    run, call = answered(AGENT, "b"), consulted("The agent ended without an answer: it broke.")
    child = child_of(run, call, status=RunStatus.FAILED, stop_reason=StopReason.FAILED, failure=TIMED_OUT)
    keep(Kept(run, [call]), Kept(child, events=[("run.failed", {})]))
    assert [child.run_id in what for what in judge(AGENT, charged(AGENT)).wrong] == [True]


def test_run_that_was_cancelled_is_wrong_because_nobody_cancels(keep: Any) -> None:
    run = a_run(run_id=run_of(TOOLS).run_id, status=RunStatus.CANCELLED, stop_reason=StopReason.CANCELLED)
    keep(Kept(run, events=[("run.cancelled", {})]))
    assert "was cancelled" in judge(TOOLS, {}).wrong[0]


@pytest.mark.parametrize(
    ("answer", "effects", "finds"),
    [
        (answer_of(TOOLS, values(TOOLS) | {"b": 0}), charged(TOOLS), f"b is 0 and not {TOOLS.parts[1].value}"),
        (answer_of(TOOLS, values(TOOLS)), {}, "a is said to be charged, and is not"),
        ("Done.", charged(TOOLS), "the answer is 'Done.'"),
    ],
)
def test_answer_that_says_what_is_not_so_is_wrong(answer: str, effects: dict[str, int], finds: str, keep: Any) -> None:
    keep(Kept(answered(TOOLS).model_copy(update={"answer": answer})))
    assert f"{TOOLS.label}: {finds}" in judge(TOOLS, effects).wrong


@pytest.mark.parametrize("told", [INTERRUPTED, DIED])
def test_effect_that_is_unknown_because_its_call_was_interrupted_takes_one_disturbance(told: str, keep: Any) -> None:
    keep(Kept(answered(TOOLS, "a"), [call_for(TOOLS, "a", told)]))
    judged = judge(TOOLS, charged(TOOLS))
    assert (found(judged), judged.unknown, judged.disturbances) == ([], 1, 1)


def test_effect_is_explained_by_an_interruption_in_the_run_of_the_agent_that_has_it(keep: Any) -> None:
    run, call = answered(AGENT, "b"), consulted("It is unknown whether that was charged.")
    inside = call_for(AGENT, "b", INTERRUPTED)
    keep(Kept(run, [call]), Kept(child_of(run, call), [inside]))
    judged = judge(AGENT, charged(AGENT))
    assert (found(judged), judged.disturbances) == ([], 1)


def test_effect_is_not_explained_by_a_failed_run_when_none_failed(keep: Any) -> None:
    run, call = answered(AGENT, "b"), consulted("The agent ended without an answer: cancelled")
    child = child_of(run, call, status=RunStatus.CANCELLED, stop_reason=StopReason.CANCELLED, answer="")
    keep(Kept(run, [call]), Kept(child, events=[("run.cancelled", {})]))
    assert [f"{AGENT.label}: b (" in what for what in judge(AGENT, charged(AGENT)).wrong] == [True]


def test_step_behind_one_that_is_unknown_is_explained_by_that(keep: Any) -> None:
    run, call = answered(PLAN, "a", "b"), stepped("a", "The agent ended without an answer: it broke.")
    child = child_of(run, call, status=RunStatus.FAILED, stop_reason=StopReason.FAILED, failure=BROKE_OFF)
    keep(Kept(run, [call]), Kept(child, events=[*tries(1, turn=0), TEXT, ("run.failed", {})]))
    assert found(judge(PLAN, {}, {"model cuts its stream"})) == []


@pytest.mark.parametrize(
    ("task", "part", "calls"),
    [
        (TOOLS, "a", []),  # its call was never made
        (TOOLS, "a", [call_for(TOOLS, "a", "KeyError: 'x'")]),
        (TOOLS, "a", [call_for(TOOLS, "c", INTERRUPTED)]),  # it is another one's result
        (TOOLS, "b", [call_for(TOOLS, "b", INTERRUPTED)]),  # what may be repeated is not unknown when it began
        (PERSON, "b", [a_call(arguments={"question": f"What is {PERSON.label}.b?"}, status=CallStatus.DONE)]),
        (PLAN, "b", [stepped("a", INTERRUPTED)]),  # it depends on one that is known
    ],
)
def test_part_that_is_unknown_although_nothing_was_interrupted_is_wrong(
    task: Task, part: str, calls: list[Call], keep: Any
) -> None:
    keep(Kept(answered(task, part), calls))
    assert [f"{task.label}: {part} (" in what for what in judge(task, charged(task)).wrong] == [True]


@pytest.mark.parametrize(
    ("twice", "says"),
    [
        (("message.completed", {"turn": 1}), "message.completed 1"),
        (("interaction.resolved", {"interaction_id": "q", "status": "answered"}), "interaction.resolved q answered"),
        (("tool.completed", {"id": "call_1_1_0"}), "tool.completed call_1_1_0"),
        (("step.completed", {"id": "a", "call_id": "call_1_1_0"}), "step.completed call_1_1_0"),
        (("run.completed", {}), "the end"),
    ],
)
def test_event_that_is_told_twice_is_found_in_the_journal_of_any_run_of_the_family(
    twice: tuple[str, dict[str, Any]], says: str, keep: Any
) -> None:
    run, call = answered(AGENT), consulted()
    child = child_of(run, call)
    for events in ([twice, twice, ("run.completed", {})], [twice, ("run.failed", {}), twice]):
        keep(Kept(run, [call]), Kept(child, events=events))
        expected = f"{AGENT.label}: {says} of {child.run_id} was told"
        assert any(what.startswith(expected) for what in judge(AGENT, charged(AGENT)).duplicated)


def test_event_that_may_come_again_is_no_duplicate(keep: Any) -> None:
    again: list[tuple[str, dict[str, Any]]] = [
        ("turn.started", {"turn": 1}),
        ("message.delta", {"text": "x"}),
        ("interaction.required", {"interaction_id": "q"}),
        ("tool.started", {"id": "call_1_1_0"}),
    ]
    others: list[tuple[str, dict[str, Any]]] = [
        ("message.completed", {"turn": 1}),
        ("message.completed", {"turn": 2}),
        ("interaction.resolved", {"interaction_id": "q", "status": "answered"}),
        ("interaction.resolved", {"interaction_id": "q", "status": "expired"}),  # its answer came too late
        ("step.completed", {"id": "a", "call_id": "call_1_1_0"}),
        ("step.completed", {"id": "a", "call_id": "call_1_2_0"}),  # it is tried again by another call
        ("run.completed", {}),
    ]
    keep(Kept(answered(PERSON), events=[*again, *again, *others]))
    assert judge(PERSON, charged(PERSON)).duplicated == []


def test_second_run_in_the_session_of_a_called_agent_is_a_duplicate(keep: Any) -> None:
    run, call = answered(AGENT), consulted()
    child = child_of(run, call)
    keep(Kept(run, [call]), Kept(child, runs=2))
    assert judge(AGENT, charged(AGENT)).duplicated == [f"{AGENT.label}: the session of {child.run_id} has 2 runs"]


def test_second_effect_is_a_duplicate_and_a_second_look_up_is_none(keep: Any) -> None:
    keep(Kept(answered(TOOLS)))
    twice = {text: 2 for text in charged(TOOLS)}
    assert judge(TOOLS, twice).duplicated == [f"{TOOLS.label}: {name} was charged 2 times" for name in ("a", "c")]


def test_task_without_a_run_is_lost(keep: Any) -> None:
    keep()
    assert judge(TOOLS, {}).lost == [f"{TOOLS.label} ({TOOLS.entry}) has no run"]
