"""The record of a call's execution: claimed before it runs, answered once, told to who follows."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from stepagent.clock import now
from stepagent.errors import ToolError
from stepagent.interactions import settle
from stepagent.journal import Journal, shown
from stepagent.observe import logger
from stepagent.runs import Call, CallKey, CallResult, CallStatus, RunKey
from stepagent.store.calls import claim_call, store_result
from stepagent.store.questions import close_question, load_question, settle_question
from stepagent.tools.rendering import split_images, to_text

_INTERRUPTED = "Interrupted: the call began and did not end. Its effects are unknown: check before you repeat it."
_TIMED_OUT = "The tool did not answer in time. Its effects are unknown: check before you repeat it."
_FAILURES = {
    "States.Timeout": _TIMED_OUT,
    "Sandbox.Timedout": _TIMED_OUT,
    "Lambda.ResourceNotFoundException": "The tool's function does not exist. Do without this tool.",
}
_EXPIRED = "Nobody answered in time."


def execute(run_id: str, call_id: str, function: Callable[[Mapping[str, Any]], Any]) -> None:
    """Runs a call at most once and stores its one result, whatever happens to it.

    A call that is done is not run again. One that began and never ended runs again only if its tool is idempotent;
    otherwise its result says that its effects are unknown.
    """
    run, key = RunKey.parse(run_id), CallKey.parse(call_id)
    claimed = claim_call(run, key)
    call = claimed.call
    if call.status is CallStatus.DONE:
        return
    with Journal(run.run_id) as journal:
        if not claimed.ours and not call.idempotent:
            _finish(journal, run, call, _error(_INTERRUPTED))
            return
        journal.emit(
            "tool.started",
            id=call.call_id,
            name=call.name,
            arguments=shown(json.dumps(call.arguments, ensure_ascii=False)),
        )
        _finish(journal, run, call, _run(call, function))


def record_failure(run_id: str, call_id: str, error: str) -> None:
    """Gives a call whose function could not do so itself its one result; an earlier result stands.

    Args:
        run_id: the run.
        call_id: the call.
        error: the error's name, as the state machine knows it.
    """
    run, key = RunKey.parse(run_id), CallKey.parse(call_id)
    claimed = claim_call(run, key)
    if claimed.question and not close_question(claimed.question):
        settle(claimed.question)  # a person's answer arrived first, and becomes the result
        return
    text = _EXPIRED if claimed.question and error == "States.Timeout" else _failure_text(error)
    with Journal(run.run_id) as journal:
        _finish(journal, run, claimed.call, _error(text))
        if claimed.question and (asked := load_question(claimed.question)):
            settle_question(asked.question)
            journal.emit("interaction.resolved", interaction_id=claimed.question, expired=True)


def _failure_text(error: str) -> str:
    return _FAILURES.get(error, f"The tool failed ({error}).")


def _run(call: Call, function: Callable[[Mapping[str, Any]], Any]) -> CallResult:
    try:
        value, images = split_images(function(call.arguments))
        return CallResult(text=to_text(value, call.result_limit_bytes), images=images, finished_at=now())
    except ToolError as error:
        return _error(to_text(error.message, call.result_limit_bytes))
    except Exception as error:  # a tool is foreign code: whatever it raises is this call's result
        logger.exception("tool raised", extra={"call_id": call.call_id, "tool": call.name})
        return _error(to_text(f"{type(error).__name__}: {error}", call.result_limit_bytes))


def _error(text: str) -> CallResult:
    return CallResult(text=text, is_error=True, finished_at=now())


def _finish(journal: Journal, run: RunKey, call: Call, result: CallResult) -> None:
    if store_result(run, call.key, result):
        text, is_error = shown(result.text), result.is_error
        journal.emit("tool.completed", id=call.call_id, name=call.name, text=text, is_error=is_error)
