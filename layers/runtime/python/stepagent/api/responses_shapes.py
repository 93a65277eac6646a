"""The shapes of OpenAI's Responses API: a run as a response, and the events of its stream."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from stepagent.api import shapes
from stepagent.runs import Failure, Run, RunKey, RunStatus, StopReason
from stepagent.usage import Usage

_PREFIX = "resp_"
_STATUSES = {
    RunStatus.RUNNING: "in_progress",
    RunStatus.WAITING: "incomplete",
    RunStatus.COMPLETED: "completed",
    RunStatus.FAILED: "failed",
    RunStatus.CANCELLED: "cancelled",
}
_CUT_SHORT = {StopReason.OUTPUT_LIMIT: "max_output_tokens"}  # what OpenAI calls incomplete of a run that completed
_LAST_EVENTS = {"completed": "response.completed", "incomplete": "response.incomplete"}


def response_id(run: Run) -> str:
    return f"{_PREFIX}{run.run_id}"


def run_id_of(response: str) -> str:
    """The id of the run that a response shows; of what is no response's id, an id that no run has."""
    return response.removeprefix(_PREFIX) if response.startswith(_PREFIX) else ""


def response(
    run: Run, text: str = "", calls: Sequence[Mapping[str, Any]] = (), questions: Sequence[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    """A run as a response.

    An agent's own calls are not the client's to run, so they stand beside the output, in `stepagent`.
    """
    status = status_of(run)
    return {
        "id": response_id(run),
        "object": "response",
        "created_at": int(run.created_at.timestamp()),
        "status": status,
        "error": _error(run),
        "incomplete_details": {"reason": _why_incomplete(run)} if status == "incomplete" else None,
        "instructions": run.system or None,
        "max_output_tokens": run.agent.limits.max_output_tokens,
        "metadata": run.metadata,
        "model": run.agent.name,
        "output": [message(run, text, item_status(run))] if text else [],
        "parallel_tool_calls": True,
        "previous_response_id": _previous(run),
        "reasoning": {"effort": None, "summary": None},
        "store": True,
        "temperature": run.agent.temperature,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "truncation": "disabled",
        "usage": None if status == "in_progress" else usage(run.usage),
        "stepagent": {**shapes.extension(run), "calls": list(calls), "interactions": list(questions)},
    }


def status_of(run: Run) -> str:
    return "incomplete" if run.stop_reason in _CUT_SHORT else _STATUSES[run.status]


def message(run: Run, text: str | None, status: str) -> dict[str, Any]:
    """The one item of a response's output; without content as long as there is no text."""
    content = [] if text is None else [part(text)]
    return {"id": message_id(run), "type": "message", "status": status, "role": "assistant", "content": content}


def message_id(run: Run) -> str:
    return f"msg_{run.run_id}"


def item_status(run: Run) -> str:
    return {"in_progress": "in_progress", "completed": "completed"}.get(status_of(run), "incomplete")


def part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def usage(counted: Usage) -> dict[str, Any]:
    return {
        "input_tokens": counted.input_tokens,
        "input_tokens_details": {"cached_tokens": counted.cached_tokens},
        "output_tokens": counted.output_tokens,
        "output_tokens_details": {"reasoning_tokens": counted.reasoning_tokens},
        "total_tokens": counted.total_tokens,
    }


class Events:
    """The events of one stream, in the order in which OpenAI's clients put a response together from them."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._numbers = count()
        self._is_open = False

    def begin(self) -> Iterator[bytes]:
        begun = response(self._run)
        yield self._event("response.created", response=begun)
        yield self._event("response.in_progress", response=begun)

    def text(self, delta: str) -> Iterator[bytes]:
        """A piece of text; the first one opens the message."""
        if not self._is_open:
            self._is_open = True
            opened = message(self._run, None, "in_progress")
            yield self._event("response.output_item.added", output_index=0, item=opened)
            yield self._in_message("response.content_part.added", part=part(""))
        yield self._in_message("response.output_text.delta", delta=delta, logprobs=[])

    def end(self, ended: Mapping[str, Any]) -> Iterator[bytes]:
        """How the run ended or paused, as a response."""
        if self._is_open:
            [item] = ended["output"] or [message(self._run, "", "incomplete")]
            [told] = item["content"]
            yield self._in_message("response.output_text.done", text=told["text"], logprobs=[])
            yield self._in_message("response.content_part.done", part=told)
            yield self._event("response.output_item.done", output_index=0, item=item)
        yield self._event(_LAST_EVENTS.get(ended["status"], "response.failed"), response=ended)

    def fail(self, error: Mapping[str, Any]) -> bytes:
        """The stream cannot go on; what becomes of the run is told elsewhere."""
        return self._event("error", code=error["code"], message=error["message"], param=None)

    def _in_message(self, type_: str, **data: Any) -> bytes:
        return self._event(type_, item_id=message_id(self._run), output_index=0, content_index=0, **data)

    def _event(self, type_: str, **data: Any) -> bytes:
        return shapes.sse({"type": type_, "sequence_number": next(self._numbers), **data}, type_)


def _error(run: Run) -> dict[str, Any] | None:
    """Why there is no answer, in OpenAI's few codes; the run itself has our own."""
    match run.status:
        case RunStatus.FAILED:
            failure = run.failure or Failure(code="internal_error", message="The run failed.")
            code = "rate_limit_exceeded" if failure.code == "model_busy" else "server_error"
            return {"code": code, "message": failure.message}
        case RunStatus.CANCELLED:
            return {"code": "server_error", "message": "The run was cancelled."}
        case _:
            return None


def _why_incomplete(run: Run) -> str:
    return _CUT_SHORT[run.stop_reason] if run.stop_reason in _CUT_SHORT else "interaction_required"


def _previous(run: Run) -> str | None:
    session, ordinal = run.key
    return f"{_PREFIX}{RunKey(session, ordinal - 1).run_id}" if ordinal > 1 else None
