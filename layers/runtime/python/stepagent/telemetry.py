"""What is measured: metrics, and one log line for each call; `turn_watch` has that of each turn.

Names of fields are those of OpenTelemetry's conventions for generative AI where those have one, in their units. Lines
hold ids, names and numbers, never what was said, given or answered. Metrics are lines of the log as well (CloudWatch's
embedded metric format), so nobody waits for them.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from aws_lambda_powertools.metrics import EphemeralMetrics, MetricUnit

from stepagent.observe import logger
from stepagent.runs import Call, CallResult, RunKey

NAMESPACE = "StepAgent"
UNKNOWN = "unknown"  # in place of names that a model made up, which have no end

Value = tuple[MetricUnit, float]


class CallEnd(NamedTuple):
    """How a call ended. `took_s` is None where nobody knows when it began; `error` is the class of what went wrong."""

    took_s: float | None = None
    error: str = ""


UNTIMED = CallEnd()


def tell_call(run: RunKey, call: Call, result: CallResult, end: CallEnd, *, known: bool = True) -> None:
    """Logs and counts a call that has its result; `known` is False for a tool that the run does not have."""
    tool = call.name if known else UNKNOWN
    failed = end.error or ("ToolError" if result.is_error else "")
    took = {} if end.took_s is None else {"duration_ms": milliseconds(end.took_s)}
    logger.info(
        "call",
        extra={
            "run_id": run.run_id,
            "turn": call.key.turn,
            "call_id": call.call_id,
            "tool": tool,
            "kind": call.kind,
            "status": "error" if failed else "ok",
            **took,
            **({"waited_s": result.waited_s} if result.waited_s else {}),
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": tool,
            "gen_ai.tool.call.id": call.call_id,
            "gen_ai.conversation.id": run.session,
            **({"error.type": failed, "error": failed} if failed else {}),
        },
    )
    durations = {"CallDuration": (MetricUnit.Milliseconds, float(took["duration_ms"]))} if took else {}
    measure({"Calls": (MetricUnit.Count, 1.0), **durations}, {"tool": tool})
    if failed:
        count_error("call", failed)


def count_end(agent: str, stop_reason: str) -> None:
    """Counts a run that has ended, by its reason, and by agent and reason."""
    measure(
        {"RunsEnded": (MetricUnit.Count, 1.0)},
        {"stop_reason": stop_reason},
        {"agent": agent, "stop_reason": stop_reason},
    )


def count_reply(outcome: Literal["delivered", "postponed", "undelivered"]) -> None:
    """Counts a try to send a run's result to where its request wanted it."""
    measure({"Replies": (MetricUnit.Count, 1.0)}, {"outcome": outcome})


def count_error(source: Literal["turn", "call"], error: str) -> None:
    """Counts an error, by where it came up and by its class."""
    measure({"Errors": (MetricUnit.Count, 1.0)}, {"source": source}, {"error": error})


def measure(values: Mapping[str, Value], *dimensions: Mapping[str, str]) -> None:
    """Writes metrics, each for the whole stack and once for each set of dimensions; every set is paid for.

    The dimension `service` is the stack's name, so that two stacks of an account are told apart.
    """
    metrics = EphemeralMetrics(namespace=NAMESPACE, service=logger.service)
    metrics.add_dimension("service", logger.service)
    for each in dimensions:
        metrics.add_dimensions(service=logger.service, **each)
    for name, (unit, value) in values.items():
        metrics.add_metric(name, unit, value)
    metrics.flush_metrics()


def milliseconds(seconds: float) -> int:
    """Seconds as whole milliseconds, never less than none."""
    return max(0, round(seconds * 1000))
