"""The end of a run, put onto the queue from which its result is sent."""

import json

from stepagent.queues import send_to_own_queue
from stepagent.runs import Run
from stepagent.settings import settings


def promise_reply(run: Run) -> None:
    """Has the result of an ended run sent to where its request wanted it; does nothing where it named no place.

    Only the id is queued, so that whatever waits there is small, and read from the record when it is sent.

    Raises:
        RecordUnavailable: the queue did not take it. Whoever tells of the run's end must do so again.
    """
    if run.reply_to:
        send_to_own_queue(settings().reply_queue_url, json.dumps({"run_id": run.run_id}))
