"""The shapes of OpenAI's Responses API: a run as a response, and the events of its stream."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any, Literal, NamedTuple

from stepagent.answer_form import AnswerForm
from stepagent.api import shapes
from stepagent.runs import Failure, Run, RunId, RunKey, RunStatus, StopReason
from stepagent.usage import Usage

PartKind = Literal["text", "refusal"]

_PREFIX = "resp_"
_STATUSES = {
    RunStatus.RUNNING: "in_progress",
    RunStatus.WAITING: "incomplete",
    RunStatus.COMPLETED: "completed",
    RunStatus.FAILED: "failed",
    RunStatus.CANCELLED: "cancelled",
}
_CUT_SHORT: dict[StopReason | None, str] = {
    StopReason.OUTPUT_LIMIT: "max_output_tokens"
}  # what OpenAI calls incomplete of a run that completed
_NAMES: dict[PartKind, str] = {"text": "output_text", "refusal": "refusal"}
_LOGPROBS: dict[PartKind, dict[str, Any]] = {"text": {"logprobs": []}, "refusal": {}}
_LAST_EVENTS = {"completed": "response.completed", "incomplete": "response.incomplete"}


def id_of(run_id: RunId) -> str:
    """The id of the response that shows a run."""
    return f"{_PREFIX}{run_id}"


def run_id_of(response_id: str) -> str:
    """The id of the run that a response shows; of what is no response's id, an id that no run has."""
    return response_id.removeprefix(_PREFIX) if response_id.startswith(_PREFIX) else ""


class Said(NamedTuple):
    """What a person reads: a text, a refusal in the place of one, or a refusal behind it."""

    text: str = ""
    refusal: str = ""

    @property
    def parts(self) -> list[dict[str, Any]]:
        texts: dict[PartKind, str] = {"text": self.text, "refusal": self.refusal}
        return [part(kind, text) for kind, text in texts.items() if text]


_NOTHING = Said()


def response(
    run: Run,
    said: Said = _NOTHING,
    calls: Sequence[Mapping[str, Any]] = (),
    questions: Sequence[Mapping[str, Any]] = (),
    ignored: Sequence[str] = (),
) -> dict[str, Any]:
    """A run as a response.

    An agent's own calls are not the client's to run, so they stand beside the output, in `stepagent`.
    """
    status = status_of(run)
    return {
        "id": id_of(run.run_id),
        "object": "response",
        "created_at": int(run.created_at.timestamp()),
        "status": status,
        "error": _error(run),
        "incomplete_details": {"reason": _why_incomplete(run)} if status == "incomplete" else None,
        "instructions": run.system or None,
        "max_output_tokens": run.agent.limits.max_output_tokens,
        "metadata": run.metadata,
        "model": run.agent.name,
        "output": [message(run, said.parts, item_status(run))] if said.parts else [],
        "parallel_tool_calls": True,
        "previous_response_id": _previous(run),
        "reasoning": {"effort": run.agent.reasoning_effort, "summary": None},
        "store": True,
        "temperature": run.agent.temperature,
        "text": {"format": _format(run.agent.answer_form)},
        "tool_choice": "auto",
        "tools": [],
        "top_p": run.agent.top_p,
        "truncation": "disabled",
        "usage": None if status == "in_progress" else usage(run.usage),
        "stepagent": _standing(run, calls, questions, ignored),
    }


def _standing(
    run: Run, calls: Sequence[Mapping[str, Any]], questions: Sequence[Mapping[str, Any]], ignored: Sequence[str]
) -> dict[str, Any]:
    doing = {"calls": list(calls), "interactions": list(questions)}
    return {**shapes.extension(run), **doing, **shapes.told(ignored)}


def status_of(run: Run) -> str:
    cut_short = run.stop_reason in _CUT_SHORT or shapes.is_filtered(run)
    return "incomplete" if cut_short else _STATUSES[run.status]


def message(run: Run, parts: Sequence[Mapping[str, Any]], status: str) -> dict[str, Any]:
    """The one item of a response's output."""
    return {"id": message_id(run), "type": "message", "status": status, "role": "assistant", "content": parts}


def message_id(run: Run) -> str:
    return f"msg_{run.run_id}"


def item_status(run: Run) -> str:
    return {"in_progress": "in_progress", "completed": "completed"}.get(status_of(run), "incomplete")


def part(kind: PartKind, text: str) -> dict[str, Any]:
    if kind == "refusal":
        return {"type": "refusal", "refusal": text}
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
        self._open: list[PartKind] = []

    def begin(self) -> Iterator[bytes]:
        begun = response(self._run)
        yield self._event("response.created", response=begun)
        yield self._event("response.in_progress", response=begun)

    def say(self, kind: PartKind, delta: str) -> Iterator[bytes]:
        """A piece of what a person reads; the first one opens the message, and the first of its kind a part of it."""
        if not self._open:
            yield self._event("response.output_item.added", output_index=0, item=message(self._run, [], "in_progress"))
        if kind not in self._open:
            self._open.append(kind)
            yield self._in_part("response.content_part.added", kind, part=part(kind, ""))
        yield self._in_part(f"response.{_NAMES[kind]}.delta", kind, delta=delta, **_LOGPROBS[kind])

    def end(self, ended: Mapping[str, Any], said: Said) -> Iterator[bytes]:
        """How the run ended or paused, as a response, and what was said in all."""
        for kind in self._open:
            text: str = getattr(said, kind)
            yield self._in_part(f"response.{_NAMES[kind]}.done", kind, **{kind: text}, **_LOGPROBS[kind])
            yield self._in_part("response.content_part.done", kind, part=part(kind, text))
        if self._open:
            [item] = ended["output"] or [message(self._run, [], "incomplete")]
            yield self._event("response.output_item.done", output_index=0, item=item)
        yield self._event(_LAST_EVENTS.get(ended["status"], "response.failed"), response=ended)

    def fail(self, error: Mapping[str, Any]) -> bytes:
        """The stream cannot go on; what becomes of the run is told elsewhere."""
        return self._event("error", code=error["code"], message=error["message"], param=None)

    def _in_part(self, type_: str, kind: PartKind, **data: Any) -> bytes:
        place = {"item_id": message_id(self._run), "output_index": 0, "content_index": self._open.index(kind)}
        return self._event(type_, **place, **data)

    def _event(self, type_: str, **data: Any) -> bytes:
        return shapes.sse({"type": type_, "sequence_number": next(self._numbers), **data}, type_)


def _error(run: Run) -> dict[str, Any] | None:
    """Why there is no answer, in OpenAI's few codes; the run itself has our own."""
    match run.status:
        case RunStatus.FAILED if not shapes.is_filtered(run):
            failure = run.failure or Failure(code="internal_error", message="The run failed.")
            code = "rate_limit_exceeded" if failure.code == "model_busy" else "server_error"
            return {"code": code, "message": failure.message}
        case RunStatus.CANCELLED:
            return {"code": "server_error", "message": "The run was cancelled."}
        case _:
            return None


def _why_incomplete(run: Run) -> str:
    if shapes.is_filtered(run):
        return "content_filter"
    return _CUT_SHORT.get(run.stop_reason, "interaction_required")


def _format(form: AnswerForm | None) -> dict[str, Any]:
    if form is None:
        return {"type": "text"}
    if form.json_schema is None:
        return {"type": "json_object"}
    return {"type": "json_schema", "name": form.name, "schema": form.json_schema, "strict": form.strict}


def _previous(run: Run) -> str | None:
    session, ordinal = run.key
    return id_of(RunKey(session, ordinal - 1).run_id) if ordinal > 1 else None
