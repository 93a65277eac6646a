"""The record of a call's execution: claimed before it runs, answered once, told to who follows."""

import json
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from stepagent.approvals import digest_of
from stepagent.clock import now
from stepagent.errors import NotFound, ToolError
from stepagent.journal import Journal, shown
from stepagent.observe import logger
from stepagent.planning.plan import status_after
from stepagent.runs import Call, CallKey, CallResult, CallStatus, RunKey
from stepagent.store.calls import claim_call, store_result
from stepagent.store.results import keep_result
from stepagent.store.runs import require_run
from stepagent.telemetry import UNTIMED, CallEnd, tell_call
from stepagent.tool_specs import ToolSpec
from stepagent.tools.rendering import MAX_KEPT_BYTES, preview, split_images, to_text

_MAX_ANSWER_BYTES = 1_000_000
_INTERRUPTED = "Interrupted: the call began and did not end. Its effects are unknown: check before you repeat it."
_NOT_APPROVED = "Not run: nobody approved of a call with these arguments."


class Invocation:
    """A call that is about to run, and what its function may know beside the arguments."""

    def __init__(self, run: RunKey, call: Call, moment: datetime) -> None:
        self.run = run
        self.call = call
        self.arguments = call.all_arguments
        self.deadline = moment + timedelta(seconds=call.timeout_s)

    @cached_property
    def tool(self) -> ToolSpec:
        """The tool's row as the run keeps it. Costs a request, which only tools without a function of their own need.

        Raises:
            NotFound: the run is gone, or has no such tool.
        """
        tool = require_run(self.run.run_id).tool(self.call.name)
        if tool is None:
            raise NotFound(f"Run {self.run.run_id} has no tool {self.call.name!r}.")
        return tool


Function = Callable[[Invocation], Any]


def execute(run_id: str, call_id: str, function: Function) -> None:
    """Runs a call at most once and stores its one result, whatever happens to it.

    A call that is done is not run again. One that began and never ended runs again only if its tool is idempotent;
    otherwise its result says that its effects are unknown. One that a person must approve runs with the approved
    arguments only.
    """
    run, key = RunKey.parse(run_id), CallKey.parse(call_id)
    claimed = claim_call(run, key)
    call = claimed.call
    if call.status is CallStatus.DONE:
        return
    with Journal(run.run_id) as journal:
        if refusal := refusal_of(call):
            finish_call(journal, run, call, error_result(refusal), CallEnd(error="NotApproved"))
        elif not (claimed.ours or call.idempotent):
            finish_call(journal, run, call, error_result(_INTERRUPTED), CallEnd(error="Interrupted"))
        else:
            announce_start(journal, call)
            began = time.monotonic()
            result, error = _run(Invocation(run, call, now()), function)
            finish_call(journal, run, call, result, CallEnd(time.monotonic() - began, error))


def refusal_of(call: Call) -> str:
    """Why a call may not run, or nothing."""
    approved = not call.needs_approval or call.approved == digest_of(call.all_arguments)
    return "" if approved else _NOT_APPROVED


def announce_start(journal: Journal, call: Call, **more: str) -> None:
    """Tells that a tool's call begins; `more` names the run that answers it. Steps of a plan are told of elsewhere."""
    arguments = shown(json.dumps(call.arguments, ensure_ascii=False))
    journal.emit("tool.started", id=call.call_id, name=call.name, arguments=arguments, **more)


def _run(invocation: Invocation, function: Function) -> tuple[CallResult, str]:
    """What came of it, and the class of the error that did."""
    call = invocation.call
    try:
        value, images = split_images(function(invocation))
        return to_result(invocation.run, call, to_text(value), images=images), ""
    except ToolError as error:
        text, name = to_text(error.message), type(error).__name__
    except Exception as error:  # a tool is foreign code: whatever it raises is this call's result
        logger.exception("tool raised", extra={"call_id": call.call_id, "tool": call.name})
        name = type(error).__name__
        text = to_text(f"{name}: {error}")
    return to_result(invocation.run, call, text, is_error=True), name


def to_result(
    run: RunKey, call: Call, text: str, *, images: tuple[str, ...] = (), is_error: bool = False
) -> CallResult:
    """A call's result. Text above the tool's limit is kept outside the record, and its preview says how to read on."""
    content, kept_bytes = text.encode("utf-8", "replace"), None
    # What is returned directly is read by a person, who cannot read on.
    limit_bytes = _MAX_ANSWER_BYTES if call.returns_directly and not is_error else call.result_limit_bytes
    if len(content) > limit_bytes:
        kept_bytes = min(len(content), MAX_KEPT_BYTES)
        keep_result(run, call.key, content[:kept_bytes])
        text = preview(text, limit_bytes, call.call_id)
    else:
        text = content.decode()
    return CallResult(text=text, images=images, is_error=is_error, finished_at=now(), kept_bytes=kept_bytes)


def error_result(text: str) -> CallResult:
    return CallResult(text=text, is_error=True, finished_at=now())


def finish_call(journal: Journal, run: RunKey, call: Call, result: CallResult, end: CallEnd = UNTIMED) -> bool:
    """Gives a call its result and tells who follows; False where it has one, which then stands."""
    stored = store_result(run, call.key, result)
    if stored:
        tell_call(run, call, result, end)
        _announce_end(journal, call, result)
    return stored


def _announce_end(journal: Journal, call: Call, result: CallResult) -> None:
    text, is_error = shown(result.text), result.is_error
    if call.is_step:
        status = status_after(call.arguments["attempt"], failed=is_error)
        told = {"id": call.arguments["step"], "title": call.arguments["title"], "call_id": call.call_id}
        journal.emit("step.completed", **told, status=status, text=text)
    else:
        journal.emit("tool.completed", id=call.call_id, name=call.name, text=text, is_error=is_error)
