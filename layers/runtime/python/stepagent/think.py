"""The Think state: loads a run, has one turn decided, stores what it came to, and tells who follows the run."""

import uuid
from collections.abc import Sequence
from typing import Literal

from stepagent.agents import MODEL_FIELDS
from stepagent.budget import calls_of, time_left_s
from stepagent.clock import now
from stepagent.delivering import close_question
from stepagent.ending import CANCELLED, end_run, note_end, tell_end, tell_others
from stepagent.errors import ConfigurationError, ModelBusy, ModelError, RecordConflict
from stepagent.executions import start_execution
from stepagent.journal import Journal, shown
from stepagent.llm.ask import Memory, Wishes, ask
from stepagent.llm.registry import MODELS_FILE, ModelSpec, find_model
from stepagent.llm.reply import ModelRequest, Reply
from stepagent.log_lines import facts_of
from stepagent.messages import Message
from stepagent.observe import logger
from stepagent.planning.choosing import CHOICE_TOKENS, choose_strategy
from stepagent.planning.turn import run_plan_turn
from stepagent.planning.words import told_plan
from stepagent.runs import ENDED, Call, Decision, Failure, Run, RunStatus, StopReason, TurnRecord
from stepagent.settings import settings
from stepagent.store.modes import refuse_mode, refused_modes
from stepagent.store.recent import recent
from stepagent.store.runs import count_usage, require_run, store_strategy
from stepagent.store.turns import Claim, claim_turn, store_turn
from stepagent.telemetry import UNTIMED, tell_call
from stepagent.turn import run_turn
from stepagent.turn_watch import TurnWatch
from stepagent.usable import Ask
from stepagent.usage import Usage

_MAX_ATTEMPTS = 3
_MAX_REQUESTED_WAITS = 10  # a provider that says how long to wait is believed more often
_MAX_WAIT_S = 300
_FAILURE_CHARS = 1_000
_CHOICE = 0  # the turn before the first one, in which a model chooses how to work

Machine = Literal["agent", "plan"]


def think(run_id: str, turn: int, machine: Machine = "agent") -> Decision:
    """Runs one turn. A turn that is stored, or a run that has ended, returns its decision and asks no model.

    A run that turns out to work by a plan leaves the state machine of the loop for an execution of the other one.

    Raises:
        NotFound: there is no such run.
        RecordConflict: a repeated request took the turn over, or the run was ended meanwhile; nothing but what it spent
            is stored.
    """
    run = require_run(run_id)
    if run.status not in ENDED and _is_forsaken(run):
        run = end_run(run, CANCELLED)
    if run.status in ENDED:
        tell_end(run)
        return _ended(run, turn)
    entries: Sequence[Message | Call] = ()
    if run.strategy == "auto":
        chosen = _choose(run, turn)
        if isinstance(chosen, Decision):
            return chosen
        run, entries = chosen
    if run.strategy == "plan" and machine == "agent":
        start_execution(run)
        return Decision(run_id=run.run_id, turn=turn, next="done", reason="plan")
    claim = claim_turn(run, turn, uuid.uuid4().hex)
    return claim.decision or _decide(run, turn, claim, entries)


def _is_forsaken(run: Run) -> bool:
    """Whether the run that asked for this one has ended, however that came: nobody waits for an answer any more."""
    return run.parent is not None and require_run(run.parent.run_id).status in ENDED


def _decide(run: Run, turn: int, claim: Claim, entries: Sequence[Message | Call]) -> Decision:
    """Decides a turn. `entries` are the session's conversation, or nothing where it is not read yet."""
    for question in run.pending:  # the loop has gone on, but whoever answered did not come to noting it
        close_question(question)
    with Journal(run.run_id) as journal:
        journal.emit("turn.started", turn=turn, attempt=claim.attempt)
        entries = entries or recent.load(run.key.session)
        decide = run_plan_turn if run.strategy == "plan" else run_turn
        watch = TurnWatch(run, turn, claim.attempt)
        try:
            record = decide(run, turn, entries, _asker(run, journal, watch))
            watch.tell(record.decision, record.usage)
        except (ModelError, ConfigurationError) as error:
            if wait := _wait(run, turn, claim, entries, error):
                watch.tell(wait, _usage_of(error), error)
                return wait
            record = _failed(run, turn, error)
            watch.tell(record.decision, record.usage, error)
        _store(run, claim, record)
        _tell(journal, run, record, watch)
        if record.outcome:
            note_end(journal, run, record.outcome)
    if record.outcome:
        tell_others(require_run(run.run_id))
    return record.decision


def _choose(run: Run, turn: int) -> tuple[Run, Sequence[Message | Call]] | Decision:
    """The run with the strategy that its model chose, and its conversation; or a decision: to wait, or to fail."""
    claim = claim_turn(run, _CHOICE, uuid.uuid4().hex)
    if claim.decision:
        return claim.decision
    most = min(CHOICE_TOKENS, run.agent.limits.max_output_tokens or CHOICE_TOKENS)
    limits = run.agent.limits.model_copy(update={"max_output_tokens": most})
    watch = TurnWatch(run, _CHOICE, claim.attempt)
    brief = run.model_copy(update={"agent": run.agent.model_copy(update={"limits": limits})})
    entries = recent.load(run.key.session)
    with Journal(run.run_id) as journal:
        try:
            chosen, usage = choose_strategy(run, entries, _asker(brief, journal, watch))
        except (ModelError, ConfigurationError) as error:
            if wait := _wait(run, turn, claim, entries, error):
                watch.tell(wait, _usage_of(error), error)
                return wait
            record = _failed(run, _CHOICE, error)
            watch.tell(record.decision, record.usage, error)
            _store(run, claim, record)
            return record.decision
        watch.tell(Decision(run_id=run.run_id, turn=_CHOICE, next="act", reason=chosen.strategy), usage)
        run = store_strategy(run, chosen, usage)
        if run.chosen is None:  # it was ended meanwhile
            return _ended(run, turn)
        journal.emit("strategy.chosen", **run.chosen.model_dump())
    return run, entries


def _store(run: Run, claim: Claim, record: TurnRecord) -> None:
    try:
        store_turn(run, claim.claim_id, record)
    except RecordConflict:  # what was asked is paid for all the same
        count_usage(run, record.usage)
        raise


def _asker(run: Run, journal: Journal, watch: TurnWatch) -> Ask:
    def asked(request: ModelRequest) -> Reply:
        return watch.heard(ask(_models(run), request, _wishes(run), _MEMORY, journal))

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
    return Wishes(agent.mode, agent.protocol, given)


_MEMORY = Memory(
    refused=lambda model: refused_modes(f"{model.base_url}#{model.provider_model}"),
    refuse=lambda model, mode: refuse_mode(f"{model.base_url}#{model.provider_model}", mode),
)


def _wait(
    run: Run,
    turn: int,
    claim: Claim,
    entries: Sequence[Message | Call],
    error: ModelError | ConfigurationError,
) -> Decision | None:
    """The decision to ask again later, where that may help and there is time for it."""
    left_s = time_left_s(run, calls_of(run, entries), now())
    if not isinstance(error, ModelBusy) or left_s <= 0:
        return None
    attempt = claim.attempt
    if attempt >= (_MAX_REQUESTED_WAITS if error.wait_s else _MAX_ATTEMPTS):
        return None
    facts = {"run_id": run.run_id, "turn": turn, "attempt": attempt, **facts_of(error)}
    logger.warning("model busy", extra=facts)
    count_usage(run, error.usage)
    wait_s = max(1, round(min(_MAX_WAIT_S, left_s, error.wait_s or 2 ** (attempt - 1))))
    return Decision(run_id=run.run_id, turn=turn, next="wait", reason=error.code, wait_s=wait_s)


def _failed(run: Run, turn: int, error: ModelError | ConfigurationError) -> TurnRecord:
    decision = Decision(run_id=run.run_id, turn=turn, next="fail", reason=error.code)
    failure = Failure(code=error.code, message=error.message[:_FAILURE_CHARS])
    return TurnRecord(decision, None, (), _usage_of(error), failure=failure)


def _usage_of(error: ModelError | ConfigurationError) -> Usage:
    return error.usage if isinstance(error, ModelError) else Usage()


def _tell(journal: Journal, run: Run, record: TurnRecord, watch: TurnWatch) -> None:
    refused = record.outcome is not None and record.outcome.stop_reason is StopReason.REFUSED
    (journal.refusal if refused else journal.text)(record.unsaid)
    if record.reply:
        steps = [{"id": call.arguments["step"], "call_id": call.call_id} for call in record.calls if call.is_step]
        calls = [{"id": call.call_id, "name": call.name} for call in record.calls if not call.is_step]
        said = {"turn": record.decision.turn, "calls": calls}
        journal.emit("message.completed", **said, **({"steps": steps} if steps else {}))
        journal.emit("usage", turn=record.decision.turn, **record.usage.model_dump(mode="json"), **watch.times)
    if record.plan and record.news is not None:
        if run.plan is None:
            journal.emit("plan.created", plan=told_plan(record.plan))
        else:
            journal.emit("plan.updated", plan=told_plan(record.plan), why=record.news)
    for call in record.calls:
        if call.result:
            tell_call(run.key, call, call.result, UNTIMED, known=run.tool(call.name) is not None)
            journal.emit("tool.completed", id=call.call_id, name=call.name, text=shown(call.result.text), is_error=True)


def _ended(run: Run, turn: int) -> Decision:
    """The decision for a run that has ended already."""
    reached = "done" if run.status is RunStatus.COMPLETED else "fail"
    return Decision(run_id=run.run_id, turn=turn, next=reached, reason=run.stop_reason or StopReason.FAILED)
