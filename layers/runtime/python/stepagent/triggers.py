"""Runs that begin without a request: each message of the queue starts one, whatever put the message there.

A message that cannot start its run fails alone and comes again. After the third time SQS moves it to the dead-letter
queue just as it was sent, since nothing can be written onto a message on its way there: why it failed stands in the log
under its id.
"""

from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from stepagent.api.requests import read_job_request
from stepagent.api.service import start_job
from stepagent.errors import StepAgentError
from stepagent.observe import logger
from stepagent.runs import Principal
from stepagent.settings import settings


def start_from_message(record: SQSRecord) -> None:
    """Starts the run that a message asks for. A message of a job whose run was started is acknowledged.

    Raises:
        Exception: the run was not started; SQS delivers the message again.
    """
    try:
        _start(record)
    except Exception as error:
        known = isinstance(error, StepAgentError)
        details = {
            "message_id": record.message_id,
            "receives": record.raw_event.get("attributes", {}).get("ApproximateReceiveCount"),
            "code": getattr(error, "error_code", getattr(error, "code", type(error).__name__)),
            "reason": str(error) if known else type(error).__name__,
        }
        logger.error("message failed", exc_info=not known, extra=details)
        raise


def _start(record: SQSRecord) -> None:
    job = read_job_request(record.body.encode())
    job_id = job.message_id or record.message_id
    run = start_job(job.as_chat(), Principal(settings().ingest_principal), job_id)
    logger.info("message taken", extra={"message_id": record.message_id, "job_id": job_id, "run_id": run.run_id})
