"""What came of a task, by the record, the journal and the log of effects: lost, done twice, wrong, or as it should."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from stepagent.delegation import sub_run_of
from stepagent.runs import ENDED, Call, Run, RunKey, RunStatus
from stepagent.store.conversation import load_history
from stepagent.store.journal import LAST_EVENTS, Event, read_events
from stepagent.store.runs import load_run, load_session
from tests.soak.reasons import LastTurn, Reason, is_dead, is_interrupted, is_of_failed_run, reason_of
from tests.soak.tasks import Part, Task, answer_of, known_in
from tests.soak.traffic import run_of

_ONE_EFFECT = ("charge", "consult", "step")  # ways to a part that has an effect, which may happen once
# What is told once, and by which fields of its event it is known. Text is none of it: a turn that is asked for again
# shows it again. An answer may be told and then, where nobody waited for it, told to have expired.
_TOLD_ONCE = {
    "tool.completed": ("id",),
    "step.completed": ("call_id",),
    "message.completed": ("turn",),
    "interaction.resolved": ("interaction_id", "status"),
}


@dataclass(frozen=True)
class Verdict:
    """How a task ended, and what is wrong with that, in words.

    `disturbances` are kills and repeated invocations that it takes at least for what failed or is unknown.
    """

    status: str
    failure: str = ""
    lost: Sequence[str] = ()
    duplicated: Sequence[str] = ()
    wrong: Sequence[str] = ()
    unknown: int = 0  # effects that the model was told are unknown
    disturbances: int = 0
    calls: int = 0


def judge(task: Task, effects: Mapping[str, int], met: Collection[str] = ()) -> Verdict:
    """The verdict on a task.

    Args:
        task: what was asked.
        effects: how often each effect happened, by its text.
        met: the faults of the model that the task met.
    """
    run = load_run(run_of(task))
    if run is None:
        return Verdict("not begun", lost=[f"{task.label} ({task.entry}) has no run"])
    family = [run, *_descendants(run)]
    calls = [call for each in family for call in _calls(each)]
    answered = known_in(run.answer)
    unknown = [part for part in task.parts if part.name not in answered] if run.status is RunStatus.COMPLETED else []
    told = {part.name: _told(task, part, calls) for part in unknown}
    wrong = [*_failed(family, met), *_wrong(task, run, answered, effects), *_unexplained(unknown, told, family)]
    return Verdict(
        run.status,
        run.failure.code + ": " + run.failure.message if run.failure else "",
        [f"{task.label}: {what}" for each in family for what in _lost(each)],
        [f"{task.label}: {what}" for what in _duplicated(task, family, effects)],
        [f"{task.label}: {what}" for what in wrong],
        len(unknown),
        _disturbances(family, met) + sum(any(map(is_interrupted, texts)) for texts in told.values()),
        len(calls),
    )


def _descendants(run: Run) -> Iterator[Run]:
    for call in _calls(run):
        child = load_run(RunKey.parse(sub_run_of(run.key, call.key))) if call.is_run else None
        if child:
            yield child
            yield from _descendants(child)


def _calls(run: Run) -> list[Call]:
    return [entry for entry in load_history(run.key.session) if isinstance(entry, Call)]


def _lost(run: Run) -> Iterator[str]:
    """A run without an end, a call without a result, a journal without a last event or with a gap."""
    if run.status not in ENDED:
        yield f"{run.run_id} is {run.status} at turn {run.turns}"
        return
    if run.status is RunStatus.COMPLETED:
        yield from (f"{call.call_id} of {run.run_id} has no result" for call in _calls(run) if call.result is None)
    events = read_events(run.run_id, 0)
    if [event.n for event in events] != list(range(1, len(events) + 1)):
        yield f"the journal of {run.run_id} has a gap"
    if not events or events[-1].type not in LAST_EVENTS:
        yield f"{run.run_id} ended without a last event ({events[-1].type if events else 'none at all'})"


def _duplicated(task: Task, family: Sequence[Run], effects: Mapping[str, int]) -> Iterator[str]:
    """A second run, a second effect, and in any journal of the family what is told a second time."""
    for run in family:
        runs = load_session(run.key.session).runs
        if runs != 1:
            yield f"the session of {run.run_id} has {runs} runs"
        told = Counter(what for event in read_events(run.run_id, 0) if (what := _told_once(event)))
        yield from (f"{what} of {run.run_id} was told {times} times" for what, times in told.items() if times > 1)
    for part in task.parts:
        times = effects.get(f"sleep {task.written(part)}", 0)
        if part.way in _ONE_EFFECT and times > 1:
            yield f"{part.name} was charged {times} times"


def _told_once(event: Event) -> str:
    """What an event tells that no other one of its journal may; nothing where others may."""
    if event.type in LAST_EVENTS:
        return "the end"
    fields = _TOLD_ONCE.get(event.type, ())
    return " ".join([event.type, *(str(event.data.get(name)) for name in fields)]) if fields else ""


def _failed(family: Sequence[Run], met: Collection[str]) -> Iterator[str]:
    """A run that failed although nothing explains it, or that somebody cancelled: nobody does."""
    for run in family:
        if run.status is RunStatus.FAILED and _reason(run, met) is None:
            why = f"{run.failure.code}: {run.failure.message}" if run.failure else "no reason"
            yield f"{run.run_id} failed ({why}), and met {', '.join(sorted(met)) or 'no fault of the model'}"
    if family[0].status is RunStatus.CANCELLED:
        yield f"{family[0].run_id} was cancelled"


def _disturbances(family: Sequence[Run], met: Collection[str]) -> int:
    reasons = [_reason(run, met) for run in family if run.status is RunStatus.FAILED]
    return sum(reason.disturbances for reason in reasons if reason)


def _reason(run: Run, met: Collection[str]) -> Reason | None:
    return reason_of(run.failure, met, _last_turn(run))


def _last_turn(run: Run) -> LastTurn:
    tries, seen = 0, False
    for event in read_events(run.run_id, 0):
        if event.type == "turn.started" and event.data["turn"] == run.turns:
            tries = max(tries, event.data["attempt"])
        elif event.type == "message.delta" and tries:
            seen = seen or "text" in event.data
    return LastTurn(tries, seen)


def _wrong(task: Task, run: Run, answered: Mapping[str, int], effects: Mapping[str, int]) -> Iterator[str]:
    """An answer that is not that of the task, or that says of an effect what is not so."""
    if run.status is not RunStatus.COMPLETED:
        return
    if run.answer != answer_of(task, dict(answered)):
        yield f"the answer is {run.answer[:200]!r}"
    for part in task.parts:
        value = answered.get(part.name)
        if value is not None and value != part.value:
            yield f"{part.name} is {value} and not {part.value}"
        elif value is not None and part.way in _ONE_EFFECT and not effects.get(f"sleep {task.written(part)}", 0):
            yield f"{part.name} is said to be charged, and is not"


def _unexplained(unknown: Sequence[Part], told: Mapping[str, Sequence[str]], family: Sequence[Run]) -> Iterator[str]:
    """Parts that are unknown although no result says why: nothing was interrupted, no run failed on the way to them."""
    has_failed = any(run.status is RunStatus.FAILED for run in family)
    for number, part in enumerate(unknown):
        texts = told[part.name]
        is_skipped = part.way == "step" and not texts and number > 0  # the step before it did not come to its end
        if part.way in ("look_up", "ask"):
            is_explained = any(map(is_dead, texts))  # it may be repeated, so one death is no reason
        else:
            is_explained = any(is_interrupted(text) or (has_failed and is_of_failed_run(text)) for text in texts)
        if not (is_skipped or is_explained):
            yield f"{part.name} ({part.way}) is unknown, and what was told is {list(texts)}"


def _told(task: Task, part: Part, calls: Sequence[Call]) -> list[str]:
    """The results of all calls for a part: of its run, and of those that its run began for it."""
    return [call.result.text for call in calls if call.result and _is_for(call, task, part)]


def _is_for(call: Call, task: Task, part: Part) -> bool:
    if call.is_step:  # it is told of the others, too
        return bool(call.arguments["step"] == part.name)
    return f"{task.label}.{part.name}" in str(call.arguments)
