"""What all functions tell whoever operates them: log lines and metrics, with ids and never with payloads."""

from aws_lambda_powertools import Logger, single_metric
from aws_lambda_powertools.metrics import MetricUnit

_NAMESPACE = "StepAgent"

logger = Logger()


def count_end(agent: str, stop_reason: str) -> None:
    """Counts a run that has ended, by its agent and its reason (metric `RunsEnded`)."""
    with single_metric(name="RunsEnded", unit=MetricUnit.Count, value=1, namespace=_NAMESPACE) as metric:
        metric.add_dimension(name="agent", value=agent)
        metric.add_dimension(name="stop_reason", value=stop_reason)
