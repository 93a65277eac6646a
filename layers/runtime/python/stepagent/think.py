"""The Think state: loads a run, has one turn decided, stores what it came to, and tells who follows the run."""

import uuid
from collections.abc import Sequence

from stepagent.agents import ToolSpec
from stepagent.ending import announce_end, announce_end_of
from stepagent.errors import ConfigurationError, ModelBusy, ModelError
from stepagent.journal import Journal, shown
from stepagent.llm import tool_choice
from stepagent.llm.providers import ask
from stepagent.llm.registry import find_model
from stepagent.llm.reply import Reply
from stepagent.messages import Message
from stepagent.observe import logger
from stepagent.runs import ENDED, Decision, Failure, Run, RunStatus, StopReason, TurnRecord, Usage
from stepagent.settings import settings
from stepagent.store.runs import Claim, claim_turn, load_history, require_run, store_turn
from stepagent.turn import Ask, run_turn

_MAX_ATTEMPTS = 4
_MAX_WAIT_S = 60


def think(run_id: str, turn: int) -> Decision:
    """Runs one turn. A turn that is stored, or a run that has ended, returns its decision and asks no model.

    Raises:
        NotFound: there is no such run.
        RecordConflict: a repeated request took the turn over, or the run was ended meanwhile; nothing is stored.
    """
    run = require_run(run_id)
    if run.status in ENDED:
        announce_end_of(run)
        return _ended(run, turn)
    claim = claim_turn(run, turn, uuid.uuid4().hex)
    return claim.decision or _decide(run, turn, claim)


def _decide(run: Run, turn: int, claim: Claim) -> Decision:
    spent: list[Usage] = []
    with Journal(run.run_id) as journal:
        journal.emit("turn.started", turn=turn, attempt=claim.attempt)
        try:
            record = run_turn(run, turn, load_history(run.key.session), _asker(run, journal, spent))
        except ModelBusy as busy:
            if claim.attempt < _MAX_ATTEMPTS:
                return _wait(run, turn, claim.attempt, busy)
            record = _failed(run, turn, busy, spent)
        except (ModelError, ConfigurationError) as error:
            record = _failed(run, turn, error, spent)
        store_turn(run, claim.claim_id, record)
        _tell(journal, turn, record)
        if record.outcome:
            announce_end(journal, record.outcome)
    return record.decision


def _asker(run: Run, journal: Journal, spent: list[Usage]) -> Ask:
    """Asks the run's model, and notes what each reply cost, so that it counts also where the turn fails."""

    def asked(system: str, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Reply:
        model = find_model(run.agent.model, settings().catalog_dir / "models.yaml")
        fields = tool_choice.render(system, messages, tools)
        if run.agent.limits.max_output_tokens:
            fields[model.max_output_field] = run.agent.limits.max_output_tokens
        if run.agent.temperature is not None:
            fields["temperature"] = run.agent.temperature
        reply = ask(model, fields, journal)
        spent.append(reply.usage)
        return reply

    return asked


def _wait(run: Run, turn: int, attempt: int, busy: ModelBusy) -> Decision:
    logger.warning("model busy", extra={"run_id": run.run_id, "turn": turn, "attempt": attempt, "why": busy.message})
    wait_s = max(1, round(min(_MAX_WAIT_S, busy.wait_s or 2 ** (attempt - 1))))
    return Decision(run_id=run.run_id, turn=turn, next="wait", reason=busy.code, wait_s=wait_s)


def _failed(run: Run, turn: int, error: ModelError | ConfigurationError, spent: Sequence[Usage]) -> TurnRecord:
    decision = Decision(run_id=run.run_id, turn=turn, next="fail", reason=error.code)
    failure = Failure(code=error.code, message=error.message)
    return TurnRecord(decision, None, (), sum(spent, Usage()), failure=failure)


def _tell(journal: Journal, turn: int, record: TurnRecord) -> None:
    journal.text(record.unsaid)
    if record.reply:
        names = [{"id": call.call_id, "name": call.name} for call in record.reply.calls]
        journal.emit("message.completed", turn=turn, calls=names)
        journal.emit("usage", turn=turn, **record.usage.model_dump())
    for call in record.calls:
        if call.result:
            journal.emit("tool.completed", id=call.call_id, name=call.name, text=shown(call.result.text), is_error=True)


def _ended(run: Run, turn: int) -> Decision:
    """The decision for a run that has ended already."""
    reached = "done" if run.status is RunStatus.COMPLETED else "fail"
    return Decision(run_id=run.run_id, turn=turn, next=reached, reason=run.stop_reason or StopReason.FAILED)
