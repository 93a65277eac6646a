"""The RunInput state: starts the run that answers an input, and keeps the task token on the server.

Whoever ends the run finds the input by it, and answers the state. Every step may be repeated: an input that has ended
answers at once, one whose run goes on waits for that, and one whose run lost its execution has it go on.
"""

from stepagent.api.content import ChatMessage
from stepagent.api.requests import ChatRequest
from stepagent.api.service import start_job
from stepagent.batches.ends import end_input
from stepagent.batches.executions import answer_state, busy_service_translated
from stepagent.batches.models import (
    MAX_INPUT_CHARS,
    Batch,
    BatchStatus,
    CopiedInput,
    InputLine,
    InputRef,
    StandingInput,
    job_id_of,
)
from stepagent.batches.preparing import INPUTS
from stepagent.ending import finalize
from stepagent.errors import Conflict, InvalidRequest, RequestError
from stepagent.executions import LOST, answer_each
from stepagent.resuming import ensure_execution
from stepagent.runs import ENDED, BatchPlace, Failure, Run
from stepagent.store.batch_files import read_object, read_range
from stepagent.store.batches import close_input, enter_input, leave_input, note_run, require_batch
from stepagent.store.runs import require_run

_MAX_OBJECT_BYTES = 4 * MAX_INPUT_CHARS  # of UTF-8


def run_input(ref: InputRef, task_token: str) -> None:
    """Starts an input's run, once, or has it go on.

    Raises:
        NotFound: there is no such batch.
        Conflict: the run of another input of its session goes on; a later try may find the session free.
    """
    batch = require_batch(ref.batch)
    standing = enter_input(ref, task_token)
    if standing.succeeded is not None:
        answer_state(task_token, succeeded=standing.succeeded)
    elif batch.status is not BatchStatus.RUNNING:
        _fail(ref, Failure(code="cancelled", message="The batch was cancelled before this input began."))
    else:
        _go_on(batch, ref, standing, task_token)


def _go_on(batch: Batch, ref: InputRef, standing: StandingInput, task_token: str) -> None:
    try:
        with busy_service_translated():
            run = _again(require_run(standing.run_id)) if standing.run_id else _begin(batch, ref)
    except Conflict:  # the state waits no more, and is entered again with another token, up to twenty times
        leave_input(ref, task_token)
        raise
    except RequestError as error:
        _fail(ref, Failure(code=error.error_code, message=error.message))
        return
    if run.status in ENDED:
        end_input(run)


def _again(run: Run) -> Run:
    """A run that began before: another execution takes the place of one that was lost, or it ends."""
    if run.status not in ENDED and ensure_execution(run) is None:
        finalize(run.run_id, LOST)
    return require_run(run.run_id)


def _begin(batch: Batch, ref: InputRef) -> Run:
    """Starts the run of an input.

    Raises:
        RequestError: it cannot be started, and why.
    """
    copied = CopiedInput.model_validate_json(read_range(batch.object_key(INPUTS), ref.at, ref.size))
    if copied.problem:
        raise InvalidRequest(copied.problem, code="invalid_input")
    asked = copied.asked or InputLine(input=_text_of(copied.object_key))
    said = [ChatMessage(role="user", content=asked.input)]
    request = ChatRequest(model=batch.agent, messages=said, session_id=asked.session_id, metadata=asked.metadata)
    place = BatchPlace(batch_id=batch.batch_id, input_id=ref.id, n=ref.n)
    run = start_job(request, batch.owner, job_id_of(batch, ref.n), used_key=batch.used_key, batch=place)
    note_run(ref, run.run_id)
    return run


def _text_of(object_key: str) -> str:
    """The text of an object that is an input.

    Raises:
        RequestError: it is gone, too long, blank or no UTF-8.
    """
    content = read_object(object_key, _MAX_OBJECT_BYTES)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidRequest("The object is not UTF-8 text, or too long.", code="invalid_input") from error
    if len(content) > _MAX_OBJECT_BYTES or len(text) > MAX_INPUT_CHARS:
        raise InvalidRequest(f"The object has more than {MAX_INPUT_CHARS} characters.", code="invalid_input")
    if not text.strip():
        raise InvalidRequest("The object is blank.", code="invalid_input")
    return text


def _fail(ref: InputRef, failure: Failure) -> None:
    """Ends an input that has no run."""
    standing = close_input(ref.batch, ref.n, succeeded=False, by=failure)
    answer_each(standing.task_tokens, lambda token: answer_state(token, succeeded=standing.succeeded is True))
