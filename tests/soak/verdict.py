"""What came of a task, by the record, the journal and the log of effects: lost, done twice, wrong, or as it should."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from stepagent.delegation import sub_run_of
from stepagent.runs import ENDED, Call, Run, RunKey, RunStatus
from stepagent.store.conversation import load_history
from stepagent.store.journal import LAST_EVENTS, read_events
from stepagent.store.runs import load_run, load_session
from tests.soak.tasks import Part, Task, answer_of, known_in
from tests.soak.traffic import run_of


@dataclass(frozen=True)
class Verdict:
    """How a task ended, and what is wrong with that, in words."""

    status: str
    failure: str = ""
    lost: Sequence[str] = ()
    duplicated: Sequence[str] = ()
    wrong: Sequence[str] = ()
    unknown: int = 0  # effects that the model was told are unknown
    calls: int = 0


def judge(task: Task, effects: Mapping[str, int]) -> Verdict:
    """The verdict on a task.

    Args:
        task: what was asked.
        effects: how often each effect happened, by its text.
    """
    run = load_run(run_of(task))
    if run is None:
        return Verdict("not begun", lost=[f"{task.label} ({task.entry}) has no run"])
    family = [run, *_descendants(run)]
    calls = [call for each in family for call in _calls(each)]
    answered = known_in(run.answer)
    return Verdict(
        run.status,
        run.failure.code + ": " + run.failure.message if run.failure else "",
        [f"{task.label}: {what}" for each in family for what in _lost(each)],
        [f"{task.label}: {what}" for what in _duplicated(task, run, effects)],
        [f"{task.label}: {what}" for what in _wrong(task, run, answered, effects)],
        sum(part.name not in answered for part in task.parts) if run.status is RunStatus.COMPLETED else 0,
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


def _duplicated(task: Task, run: Run, effects: Mapping[str, int]) -> Iterator[str]:
    """A second run, a second effect, a second last event, a second result of one call."""
    runs = load_session(run.key.session).runs
    if runs != 1:
        yield f"its session has {runs} runs"
    for part in task.parts:
        times = effects.get(f"sleep {task.written(part)}", 0)
        if part.way in ("charge", "consult", "step") and times > 1:
            yield f"{part.name} was charged {times} times"
    # A step that failed is tried again, by another call.
    told = Counter(
        (event.type, event.data.get("call_id", event.data.get("id"))) for event in read_events(run.run_id, 0)
    )
    for (type_, id_), times in told.items():
        if times > 1 and type_ in ("tool.completed", "step.completed", *LAST_EVENTS):
            yield f"{type_} {id_ or ''} was told {times} times"


def _wrong(task: Task, run: Run, answered: Mapping[str, int], effects: Mapping[str, int]) -> Iterator[str]:
    """An answer that is not that of the task, or that says of an effect what is not so."""
    if run.status is not RunStatus.COMPLETED:
        return
    if run.answer != answer_of(task, dict(answered)):
        yield f"the answer is {run.answer[:200]!r}"
    for part in task.parts:
        value = answered.get(part.name)
        charges = effects.get(f"sleep {task.written(part)}", 0)
        if value is None and part.way in ("look_up", "ask") and "(Runtime." not in _told(run, part):
            yield f"{part.name} ({part.way}) is unknown, although it may be repeated: {_told(run, part)!r}"
        elif value is not None and value != part.value:
            yield f"{part.name} is {value} and not {part.value}"
        elif value is not None and part.way in ("charge", "consult", "step") and not charges:
            yield f"{part.name} is said to be charged, and is not"


def _told(run: Run, part: Part) -> str:
    """What the model was told of a part: a process that died five times in a row is an honest reason for no value."""
    results = (call.result.text for call in _calls(run) if call.result and f".{part.name}" in str(call.arguments))
    return next(results, "")
