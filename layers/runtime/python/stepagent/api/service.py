"""What the routes do, free of HTTP: starting runs, or joining those that were begun, reading and cancelling them."""

from collections.abc import Callable
from functools import partial

from stepagent.agents import AgentSpec
from stepagent.api.beginning import Following, answer_question, begin_or_answer, with_execution
from stepagent.api.idempotency import begun_with, find_job, job_key, request_key
from stepagent.api.requests import ChatRequest
from stepagent.cancelling import cancel_run
from stepagent.errors import Conflict, NotFound, RecordConflict
from stepagent.llm.registry import MODELS_FILE, ModelSpec, load_models
from stepagent.rows import Catalog, RowKey
from stepagent.runs import BatchPlace, Principal, Run
from stepagent.settings import settings
from stepagent.spending import UsedKey
from stepagent.store.catalog import list_rows, read_row
from stepagent.store.idempotency import Begun, IdempotencyKey
from stepagent.store.runs import require_run


def agents() -> dict[str, AgentSpec]:
    """All agents as they stand, by name."""
    return Catalog.of(row.spec for row in list_rows("agent")).agents


def agent(name: str) -> AgentSpec:
    """One agent as it stands.

    Raises:
        NotFound: there is none.
    """
    row = read_row(RowKey("agent", name))
    if row is None or not isinstance(row.spec, AgentSpec):
        raise NotFound(f"There is no agent {name[:80]!r}; GET /v1/models lists all.", "model", "model_not_found")
    return row.spec


def models() -> dict[str, ModelSpec]:
    return load_models(settings().catalog_dir / MODELS_FILE)


def say(
    request: ChatRequest,
    principal: Principal,
    idempotency_key: str = "",
    *,
    may_answer: bool = True,
    used_key: UsedKey | None = None,
) -> Following:
    """Answers the question that the session waits with, where it may, or starts a run.

    With an idempotency key it does so once: the same request with the same key joins what the first one began.

    Raises:
        NotFound: there is no such agent.
        InvalidRequest: the result may not go where the request wants it.
        Conflict: the session's run is still going on.
        IdempotencyKeyReused: the key was sent with another request.
        BudgetSpent: a run would begin, and nothing is left of what may be spent with the key that the caller used.
    """
    key = request_key(request, principal, idempotency_key) if idempotency_key else None
    begin = partial(begin_or_answer, request, principal, key, may_answer=may_answer, used_key=used_key)
    return _once(request, key, begin)


def start_job(
    request: ChatRequest,
    principal: Principal,
    job_id: str,
    *,
    used_key: UsedKey | None = None,
    batch: BatchPlace | None = None,
) -> Run:
    """Starts a run that nobody follows, once a job: its id stands for it, however often it comes.

    Raises:
        NotFound: there is no such agent.
        Conflict: the session's run is still going on, or asks a person, which a job cannot answer.
        IdempotencyKeyReused: another job has this id.
        BudgetSpent: nothing is left of what may be spent with the key that the job came with.
    """
    key = job_key(request, principal, job_id)
    begin = partial(begin_or_answer, request, principal, key, may_answer=False, used_key=used_key, batch=batch)
    return _once(request, key, begin).run


def join_job(principal: Principal, job_id: str) -> Run | None:
    """The run that was begun for a job, whatever the job said then; None where there is none."""
    begun = find_job(principal, job_id)
    return with_execution(begun.run_id) if begun else None


def read_run(run_id: str, principal: Principal) -> Run:
    """One run of this principal.

    Raises:
        NotFound: there is none, or it is another principal's.
    """
    run = require_run(run_id)
    if run.owner != principal:
        raise NotFound(f"There is no run {run_id!r}.")
    return run


def cancel(run_id: str, principal: Principal) -> Run:
    """Ends a run of this principal and everything that it began; one that has ended stays as it is.

    Raises:
        NotFound: there is none, or it is another principal's.
    """
    return cancel_run(read_run(run_id, principal).run_id)


def _once(request: ChatRequest, key: IdempotencyKey | None, begin: Callable[[], Following]) -> Following:
    """Joins what was begun with this key, or begins it."""
    if key is None:
        return begin()
    if begun := begun_with(key):
        return _join(request, begun)
    try:
        return begin()
    except (Conflict, RecordConflict):
        if begun := begun_with(key):  # the same request was quicker
            return _join(request, begun)
        raise


def _join(request: ChatRequest, begun: Begun) -> Following:
    """Whoever began it may have died before his last step, so that is done again: it changes nothing if he took it."""
    if begun.question is None:
        return Following(with_execution(begun.run_id), begun.after)
    run = require_run(begun.run_id)
    answer_question(run, begun.question, request)
    return Following(run, begun.after)
