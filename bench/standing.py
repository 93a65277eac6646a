"""What a stack costs a month whatever runs in it: queues that are asked for messages, and what watches it."""

from bench.prices import Amounts, Assumptions

_MONTH_S = 30 * 24 * 3600

# Counted by `tests/unit/test_bench_starts.py`, in the template and of what the code writes.
QUEUES, FIFO_QUEUES = 2, 1  # that functions take messages from
ALARMS, DASHBOARDS = 16, 1
STACK_SERIES, SOURCE_SERIES = 14, 2  # metrics of the stack as a whole; its errors in turns and in calls
MODEL_SERIES, TOOL_SERIES = 8, 2

_TURNS = 1_000_000


def month_amounts(given: Assumptions) -> dict[str, Amounts]:
    """Of a month, by what there is one of."""
    polls = given.pollers * _MONTH_S / given.poll_s
    logged = _TURNS * (given.turn_log_bytes + given.call_log_bytes)
    return {
        "an empty queue": {"sqs_request": polls},
        "an empty FIFO queue": {"fifo_request": polls},
        "all queues of a stack, empty": {"sqs_request": QUEUES * polls, "fifo_request": FIFO_QUEUES * polls},
        "alarms and dashboard": {"alarm": ALARMS, "dashboard": DASHBOARDS},
        "metrics of the stack as a whole": {"metric": STACK_SERIES + SOURCE_SERIES},
        "metrics of an agent with its model": {"metric": MODEL_SERIES},
        "the same where a cost is not known": {"metric": MODEL_SERIES + 1},
        "metrics of a tool": {"metric": TOOL_SERIES},
        "metric of an error class, or of a stop reason": {"metric": 1},
        "logs of a million turns with a call each": {"log_gb": logged / 10**9},
    }
