"""Takes messages of the queue of replies, each of which names a run whose result is sent; reports what to repeat."""

from typing import Any

from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response

from stepagent.observe import observed
from stepagent.replies.delivery import deliver_from_message

_processor = BatchProcessor(EventType.SQS, raise_on_entire_batch_failure=False)


@observed
def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    return dict(process_partial_response(event, deliver_from_message, _processor))
