"""A run as the API tells of it, with its events, written down second by second."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from local.api_client import RunEvent

Json = dict[str, Any]

BEGIN = datetime(2030, 1, 1, 12, tzinfo=UTC)
RUN_ID = "run_abc_1"


def at(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def recorded(*told: tuple[float, str, Mapping[str, Any]]) -> list[RunEvent]:
    """Events at these seconds, of these types, with this data."""
    return [
        RunEvent(n, type_, at(seconds).isoformat(timespec="milliseconds"), dict(data))
        for n, (seconds, type_, data) in enumerate(told, 1)
    ]


def spent(turn: int, **changes: Any) -> Json:
    counted = {"input_tokens": 1200, "output_tokens": 40, "cached_tokens": 0, "cost_usd": "0.0012"}
    return {"turn": turn, **counted, "model": "default", "mode": "tool_choice", "ttft_ms": 500, **changes}


def a_view(**changes: Any) -> Json:
    """A run as GET /runs/{id} shows it."""
    usage = {
        "prompt_tokens": 2400,
        "completion_tokens": 80,
        "total_tokens": 2480,
        "prompt_tokens_details": {"cached_tokens": 1000},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }
    run = {"run_id": RUN_ID, "agent": "assistant", "session_id": "s", "status": "completed", "stop_reason": "answered"}
    times = {"created_at": at(0).isoformat(), "ended_at": at(4).isoformat()}
    rest: Json = {"failure": None, "turns": 2, "usage": usage, "cost_usd": 0.0024, "interactions": []}
    return {**run, **times, **rest, **changes}


# A turn that asks for two calls at once, of which one fails, and one that answers.
TWO_CALLS = recorded(
    (0, "run.started", {"run_id": RUN_ID, "agent": "assistant"}),
    (0, "turn.started", {"turn": 1, "attempt": 1}),
    (0.5, "message.delta", {"text": "I compute."}),
    (1, "message.completed", {"turn": 1, "calls": [{"id": "c1", "name": "search"}, {"id": "c2", "name": "search"}]}),
    (1, "usage", spent(1)),
    (1, "tool.started", {"id": "c1", "name": "search", "arguments": '{"q": "a"}'}),
    (1, "tool.started", {"id": "c2", "name": "search", "arguments": "{}"}),
    (2, "tool.completed", {"id": "c1", "name": "search", "text": "found", "is_error": False}),
    (3, "tool.completed", {"id": "c2", "name": "search", "text": "broke", "is_error": True}),
    (3, "turn.started", {"turn": 2, "attempt": 1}),
    (3.5, "message.delta", {"text": "Done."}),
    (4, "message.completed", {"turn": 2, "calls": []}),
    (4, "usage", spent(2)),
    (4, "run.completed", {"stop_reason": "answered", "failure": None}),
)
# A person is asked and takes an hour.
A_QUESTION = recorded(
    (0, "run.started", {"run_id": RUN_ID, "agent": "assistant"}),
    (0, "turn.started", {"turn": 1, "attempt": 1}),
    (1, "message.completed", {"turn": 1, "calls": [{"id": "c1", "name": "ask_user"}]}),
    (1, "usage", spent(1)),
    (
        1,
        "interaction.required",
        {"interaction_id": "i1", "call_id": "c1", "tool": "ask_user", "type": "text", "description": "Which colour?"},
    ),
    (3601, "interaction.resolved", {"interaction_id": "i1", "status": "answered"}),
    (3601, "tool.completed", {"id": "c1", "name": "ask_user", "text": "blue", "is_error": False}),
    (3601, "turn.started", {"turn": 2, "attempt": 1}),
    (3602, "message.delta", {"text": "Blue."}),
    (3602, "message.completed", {"turn": 2, "calls": []}),
    (3602, "usage", spent(2)),
    (3602, "run.completed", {"stop_reason": "answered", "failure": None}),
)
