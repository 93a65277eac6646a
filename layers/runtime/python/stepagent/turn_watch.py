"""What a turn took and cost: measured while its model is asked, and told to whoever operates the stack."""

import time
from functools import cached_property
from typing import Any

from aws_lambda_powertools.metrics import MetricUnit

from stepagent.llm.reply import Reply
from stepagent.observe import logger
from stepagent.runs import Decision, Run
from stepagent.telemetry import Value, count_error, measure, milliseconds
from stepagent.usage import Usage

# Names of OpenTelemetry's for providers that the catalog calls otherwise; those of others are the same or free.
CONVENTIONAL_PROVIDERS = {
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
}


class TurnWatch:
    """Measures one try of a turn, from here until it is told."""

    def __init__(self, run: Run, turn: int, attempt: int = 1) -> None:
        self._run, self._turn, self._attempt = run, turn, attempt
        self._began = time.monotonic()
        self._replies: list[Reply] = []

    def heard(self, reply: Reply) -> Reply:
        """Notes a reply, whether or not it is usable, and passes it on."""
        self._replies.append(reply)
        return reply

    @cached_property
    def times(self) -> dict[str, Any]:
        """Which model answered in which mode, and how fast, once the turn is decided. Times are milliseconds."""
        origin = self._replies[-1].origin if self._replies else None
        mode, model = (origin.mode, origin.model) if origin else (None, None)
        return {"model": model, "mode": mode, "ttft_ms": self._ttft_ms, "duration_ms": milliseconds(self._took_s)}

    def tell(self, decision: Decision, usage: Usage, error: Exception | None = None) -> None:
        """Logs and counts the turn. One that must wait for its provider is told as often as it is tried."""
        failed, times = type(error).__name__ if error else "", self.times
        facts = {"attempt": self._attempt, "next": decision.next, "reason": decision.reason, **times}
        cost_usd = None if usage.cost_usd is None else float(usage.cost_usd)
        ids = {"run_id": self._run.run_id, "turn": self._turn, "agent": self._run.agent.name}
        more = {"requests": len(self._replies), "cost_usd": cost_usd}
        logger.info("turn", extra={**ids, **facts, **more, **self._conventional(usage, failed)})
        self._count(decision, usage, times)
        if failed:
            count_error("turn", failed)

    def _count(self, decision: Decision, usage: Usage, times: dict[str, Any]) -> None:
        model = times["model"] or self._run.agent.model
        counted = {} if decision.next == "wait" else {"Turns": (MetricUnit.Count, 1.0)}
        measured = {"TurnDuration": times["duration_ms"], "TimeToFirstToken": times["ttft_ms"]}
        took = {name: (MetricUnit.Milliseconds, float(ms)) for name, ms in measured.items() if ms is not None}
        measure({**counted, **_spent(usage), **took}, {"agent": self._run.agent.name, "model": model})

    def _conventional(self, usage: Usage, failed: str) -> dict[str, Any]:
        """What OpenTelemetry has a name for, and what failed."""
        last = self._replies[-1] if self._replies else None
        first_s = None if self._ttft_ms is None else self._ttft_ms / 1000
        fields = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": last and CONVENTIONAL_PROVIDERS.get(last.origin.provider, last.origin.provider),
            "gen_ai.request.model": last.origin.requested if last else self._run.agent.model,
            "gen_ai.response.model": last and last.origin.responded,
            "gen_ai.response.finish_reasons": [last.finish_reason] if last and last.finish_reason else None,
            "gen_ai.response.time_to_first_chunk": first_s,
            "gen_ai.agent.name": self._run.agent.name,
            "gen_ai.conversation.id": self._run.key.session,  # what the client calls it may be anything
            "gen_ai.usage.input_tokens": usage.input_tokens,
            "gen_ai.usage.output_tokens": usage.output_tokens,
            "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens,
            "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens,
            "error.type": failed,
            "error": failed,  # the same by a name without a dot, which queries need not quote
        }
        return {name: value for name, value in fields.items() if value not in (None, "")}

    @property
    def _took_s(self) -> float:
        return time.monotonic() - self._began

    @property
    def _ttft_ms(self) -> int | None:
        """From the turn's begin to the first piece of its first reply that had one; None where nothing came."""
        moments = [reply.origin.first_token_at for reply in self._replies if reply.origin.first_token_at is not None]
        return milliseconds(moments[0] - self._began) if moments else None


def _spent(usage: Usage) -> dict[str, Value]:
    """Tokens and cost; a cost that is not known is none, and is counted as such."""
    tokens = {
        "InputTokens": usage.input_tokens,
        "OutputTokens": usage.output_tokens,
        "CachedInputTokens": usage.cached_tokens,
        "ReasoningTokens": usage.reasoning_tokens,
    }
    unknown = {"UnknownCost": (MetricUnit.Count, 1.0)}
    cost = unknown if usage.cost_usd is None else {"CostUsd": (MetricUnit.NoUnit, float(usage.cost_usd))}
    return {**{name: (MetricUnit.Count, float(value)) for name, value in tokens.items()}, **cost}
