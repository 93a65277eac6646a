"""What becomes of a message whose run was not started: whether and when it comes again, or that it is put aside."""

from datetime import timedelta
from typing import NamedTuple

from botocore.exceptions import BotoCoreError, ClientError

from stepagent.errors import RecordConflict, RecordUnavailable, RequestError, StepAgentError

TRIES = 3  # of a message that waiting does not help
RETRY_S = 5
MAX_WAIT = timedelta(hours=24)
_MIN_HIDDEN_S, _MAX_HIDDEN_S = 2, 900
_BUSY = "session_busy"


class Failure(NamedTuple):
    """Why a run was not started, for programs and for people; without anything that the message says.

    `waits`: a later try helps, since a session is busy or a service does not answer.
    """

    code: str
    reason: str
    waits: bool


def failure_of(error: Exception) -> Failure:
    """What went wrong, of an error that starting a run came to."""
    match error:
        case RequestError():
            return Failure(error.error_code, error.message, waits=error.error_code == _BUSY)
        case StepAgentError():
            return Failure(error.code, error.message, waits=isinstance(error, RecordUnavailable | RecordConflict))
        case ClientError():
            code = str(error.response["Error"]["Code"])
            return Failure(code, f"A service of AWS did not take a request ({code}).", waits=True)
        case BotoCoreError():
            return Failure(type(error).__name__, "A service of AWS cannot be reached.", waits=True)
        case _:
            return Failure(type(error).__name__, "The code of this function failed; its log says where.", waits=False)


def hidden_s(failure: Failure, receives: int, waited: timedelta) -> int | None:
    """For how many seconds a message is hidden until it comes again; None where it is put aside.

    One that waits comes again whenever it has waited a quarter longer, for a day: so it costs little, and starts soon
    after it can.

    Args:
        failure: of this time.
        receives: how often it has come, with this time.
        waited: since it came first.
    """
    if not failure.waits:
        return RETRY_S if receives < TRIES else None
    if waited >= MAX_WAIT:
        return None
    return min(max(int(waited.total_seconds()) // 4, _MIN_HIDDEN_S), _MAX_HIDDEN_S)
