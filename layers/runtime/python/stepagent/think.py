"""The Think state: loads a run, has one turn decided, stores what it came to, and tells who follows the run."""

import uuid

from stepagent.agents import MODEL_FIELDS
from stepagent.budget import calls_of, time_left_s
from stepagent.clock import now
from stepagent.delegation import answer_parent
from stepagent.delivering import close_question
from stepagent.ending import announce_end, announce_end_of
from stepagent.errors import ConfigurationError, ModelBusy, ModelError, RecordConflict
from stepagent.journal import Journal, shown
from stepagent.llm.ask import Memory, Wishes, ask
from stepagent.llm.registry import MODELS_FILE, ModelSpec, find_model
from stepagent.llm.reply import Listener, ModelRequest, Reply
from stepagent.observe import count_end, logger
from stepagent.runs import ENDED, Decision, Failure, Outcome, Run, RunStatus, StopReason, TurnRecord
from stepagent.settings import settings
from stepagent.store.conversation import load_history
from stepagent.store.modes import refuse_mode, refused_modes
from stepagent.store.runs import close_run, count_usage, require_run
from stepagent.store.turns import Claim, claim_turn, store_turn
from stepagent.turn import Ask, run_turn
from stepagent.usage import Usage

_MAX_ATTEMPTS = 3
_MAX_REQUESTED_WAITS = 10  # a provider that says how long to wait is believed more often
_MAX_WAIT_S = 300
_FAILURE_CHARS = 1_000


def think(run_id: str, turn: int) -> Decision:
    """Runs one turn. A turn that is stored, or a run that has ended, returns its decision and asks no model.

    Raises:
        NotFound: there is no such run.
        RecordConflict: a repeated request took the turn over, or the run was ended meanwhile; nothing but what it spent
            is stored.
    """
    run = require_run(run_id)
    if run.status not in ENDED and _is_forsaken(run):
        close_run(run, Outcome(RunStatus.CANCELLED, StopReason.CANCELLED))
        run = require_run(run_id)
    if run.status in ENDED:
        announce_end_of(run)
        return _ended(run, turn)
    claim = claim_turn(run, turn, uuid.uuid4().hex)
    return claim.decision or _decide(run, turn, claim)


def _is_forsaken(run: Run) -> bool:
    """Whether the run that asked for this one has ended, however that came: nobody waits for an answer any more."""
    return run.parent is not None and require_run(run.parent.run_id).status in ENDED


def _decide(run: Run, turn: int, claim: Claim) -> Decision:
    for question in run.pending:  # the loop has gone on, but whoever answered did not come to noting it
        close_question(question)
    with Journal(run.run_id) as journal:
        journal.emit("turn.started", turn=turn, attempt=claim.attempt)
        entries = load_history(run.key.session)
        try:
            record = run_turn(run, turn, entries, _asker(run, journal))
        except ModelBusy as busy:
            left_s = time_left_s(run, calls_of(run, entries), now())
            if claim.attempt < (_MAX_REQUESTED_WAITS if busy.wait_s else _MAX_ATTEMPTS) and left_s > 0:
                return _wait(run, turn, claim.attempt, busy, left_s)
            record = _failed(run, turn, busy)
        except (ModelError, ConfigurationError) as error:
            record = _failed(run, turn, error)
        try:
            store_turn(run, claim.claim_id, record)
        except RecordConflict:  # what was asked is paid for all the same
            count_usage(run, record.usage)
            raise
        _tell(journal, turn, record)
        if record.outcome:
            count_end(run.agent.name, record.outcome.stop_reason)
            announce_end(journal, record.outcome)
    if record.outcome and run.parent:
        answer_parent(require_run(run.run_id))
    return record.decision


class _Unchecked:
    """Hears a reply whose text nobody may see before it is known to have the form that is wanted."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener

    def text(self, fragment: str) -> None:
        pass

    def reasoning(self, fragment: str) -> None:
        self._listener.reasoning(fragment)


def _asker(run: Run, journal: Journal) -> Ask:
    listener: Listener = _Unchecked(journal) if run.agent.answer_form else journal

    def asked(request: ModelRequest) -> Reply:
        return ask(_models(run), request, _wishes(run), _MEMORY, listener)

    return asked


def _models(run: Run) -> list[ModelSpec]:
    """The agent's model and those to ask in its place.

    Raises:
        ConfigurationError: one is not listed, or has no price although the agent's money is bounded.
    """
    path = settings().catalog_dir / MODELS_FILE
    model = find_model(run.agent.model, path)
    models = [model, *(find_model(name, path) for name in model.fallbacks)]
    unpriced = [each.name for each in models if each.prices.cost_usd(Usage()) is None]
    if unpriced and run.agent.limits.max_cost_usd is not None:
        raise ConfigurationError(f"max_cost_usd needs the prices of {', '.join(unpriced)} in {MODELS_FILE}.")
    return models


def _wishes(run: Run) -> Wishes:
    agent = run.agent
    fields = {"max_tokens": agent.limits.max_output_tokens, **agent.model_dump(include=set(MODEL_FIELDS))}
    given = {name: value for name, value in fields.items() if value is not None and value != ()}
    return Wishes(agent.mode, agent.protocol, given, agent.answer_form)


_MEMORY = Memory(
    refused=lambda model: refused_modes(f"{model.base_url}#{model.provider_model}"),
    refuse=lambda model, mode: refuse_mode(f"{model.base_url}#{model.provider_model}", mode),
)


def _wait(run: Run, turn: int, attempt: int, busy: ModelBusy, left_s: float) -> Decision:
    logger.warning("model busy", extra={"run_id": run.run_id, "turn": turn, "attempt": attempt, "why": busy.message})
    count_usage(run, busy.usage)
    wait_s = max(1, round(min(_MAX_WAIT_S, left_s, busy.wait_s or 2 ** (attempt - 1))))
    return Decision(run_id=run.run_id, turn=turn, next="wait", reason=busy.code, wait_s=wait_s)


def _failed(run: Run, turn: int, error: ModelError | ConfigurationError) -> TurnRecord:
    decision = Decision(run_id=run.run_id, turn=turn, next="fail", reason=error.code)
    usage = error.usage if isinstance(error, ModelError) else Usage()
    return TurnRecord(
        decision, None, (), usage, failure=Failure(code=error.code, message=error.message[:_FAILURE_CHARS])
    )


def _tell(journal: Journal, turn: int, record: TurnRecord) -> None:
    refused = record.outcome is not None and record.outcome.stop_reason is StopReason.REFUSED
    (journal.refusal if refused else journal.text)(record.unsaid)
    if record.reply:
        names = [{"id": call.call_id, "name": call.name} for call in record.reply.calls]
        journal.emit("message.completed", turn=turn, calls=names)
        journal.emit("usage", turn=turn, **record.usage.model_dump(mode="json"))
    for call in record.calls:
        if call.result:
            journal.emit("tool.completed", id=call.call_id, name=call.name, text=shown(call.result.text), is_error=True)


def _ended(run: Run, turn: int) -> Decision:
    """The decision for a run that has ended already."""
    reached = "done" if run.status is RunStatus.COMPLETED else "fail"
    return Decision(run_id=run.run_id, turn=turn, next=reached, reason=run.stop_reason or StopReason.FAILED)
