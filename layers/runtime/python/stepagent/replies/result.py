"""What is told of an ended run: facts that anybody may hear, and the whole result for whom the request named. Pure."""

import json
import re
from typing import Any

from stepagent.runs import Run

MAX_BYTES = 200_000  # of a message or a webhook's body: a queue may take 256 KB, with what wraps it
_NOT_TAKEN = re.compile(r"[\ud800-\udfff\ufffe\uffff]")


def event_id(run: Run) -> str:
    """The id of a run's end: the same each time it is told, so that whoever hears it twice can tell."""
    return f"{run.run_id}.{run.status}"


def facts_of(run: Run) -> dict[str, Any]:
    """Who, how and how much; neither what was said nor what the caller noted."""
    return {
        "run_id": run.run_id,
        "session_id": run.session_id,
        "agent": run.agent.name,
        "owner": run.owner,
        "status": run.status,
        "stop_reason": run.stop_reason,
        "failure_code": run.failure.code if run.failure else None,
        "usage": run.usage.model_dump(mode="json"),
        "created_at": run.created_at.isoformat(),
        "ended_at": run.ended_at.isoformat() if run.ended_at else None,
    }


def result_of(run: Run) -> dict[str, Any]:
    """The result of an ended run, in the form that Standard Webhooks has: id, type, timestamp and data."""
    facts = facts_of(run)
    failure = run.failure.model_dump() if run.failure else None
    return {
        "id": event_id(run),
        "type": f"run.{run.status}",
        "timestamp": facts["ended_at"],
        "data": {**facts, "answer": run.answer, "answer_at": None, "failure": failure, "metadata": run.metadata},
    }


def as_json(result: dict[str, Any]) -> bytes:
    """JSON of characters that each place takes: what SQS refuses, or UTF-8 cannot say, is written as an escape."""
    text = json.dumps(result, ensure_ascii=False, separators=(",", ":"))
    return _NOT_TAKEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode()


def without_answer(result: dict[str, Any], answer_at: str) -> dict[str, Any]:
    """The result with the address of an object that has the whole of it, in place of its answer."""
    return {**result, "data": {**result["data"], "answer": None, "answer_at": answer_at}}
