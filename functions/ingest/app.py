"""Takes the queue's messages, which start runs; reports those that could not."""

from typing import Any

from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response

from stepagent.triggers import start_from_message

# Where all of them fail it reports all of them, too: an error would make a bad message look like a broken function.
_processor = BatchProcessor(EventType.SQS, raise_on_entire_batch_failure=False)


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    return dict(process_partial_response(event, start_from_message, _processor))
