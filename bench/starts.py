"""What it takes to start runs by each entry, to answer inputs of a batch and to send results, beside the runs.

All are amounts of one. Each function is billed for `function_s`, the overhead of a whole turn: more than any of these
few requests to the record takes. One message comes at a time, though the queues give up to ten.
"""

from bench.batches import BatchUsage, Moved
from bench.prices import Amounts, Assumptions

SQS_REQUESTS = 3  # to send a message, receive it and delete it


def start_amounts(function_s: float, given: Assumptions) -> dict[str, Amounts]:
    """Of one start by each entry. All come by a queue, and from there by `ingest`."""
    ingest = {"lambda_request": 1, "lambda_gb_s": given.function_gb * function_s}
    queue = {"sqs_request": SQS_REQUESTS, **ingest}
    return {
        "a job in the queue": queue,
        "a job in the FIFO queue": {"fifo_request": SQS_REQUESTS, **ingest},
        # A rule may attach the object's text, so it is read; what a bucket tells the bus counts as an event of ours.
        "an object in the inbox": {"s3_write": 1, "s3_read": 1, "event": 1, **queue},
        "an event of the bus": {"event": 1, **queue},
        "a time of a schedule": {"schedule": 1, **queue},
    }


def reply_amounts(given: Assumptions) -> dict[str, Amounts]:
    """Of one result that is sent, without what its place costs: the receiver keeps the function waiting."""
    sent = {"lambda_request": 1, "lambda_gb_s": given.function_gb * given.reply_s}
    return {"a result sent by `reply_to`": {"sqs_request": SQS_REQUESTS, **sent}}


def batch_amounts(used: BatchUsage, function_s: float, given: Assumptions) -> dict[str, Amounts]:
    """Of an input beside its run, and of a batch beside its inputs."""
    return {
        "an input of a batch": {
            **_moved(used.input),
            "lambda_request": 1,
            "lambda_gb_s": given.function_gb * function_s,
        },
        # `api` behind `authorize`; `prepare_batch` and `finish_batch`.
        "a batch itself": {
            **_moved(used.batch),
            "api_request": 1,
            "lambda_request": 2 + 2,
            "lambda_gb_s": 2 * (given.function_gb + given.batch_gb) * function_s,
        },
    }


def _moved(moved: Moved) -> Amounts:
    return {
        "transition": moved.transitions,
        "read_unit": moved.read_units,
        "write_unit": moved.write_units,
        "s3_read": moved.s3_reads,
        "s3_write": moved.s3_writes,
    }
