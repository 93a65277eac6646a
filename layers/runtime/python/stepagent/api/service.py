"""What the routes do, free of HTTP: starting runs, reading them, answering questions."""

import hashlib
import secrets
from base64 import b32encode
from datetime import timedelta
from typing import NamedTuple

from stepagent.agents import AgentSpec
from stepagent.api.requests import ChatRequest
from stepagent.catalog import Catalog, load_catalog
from stepagent.clock import now
from stepagent.ending import finalize
from stepagent.errors import Conflict, NotFound, RecordConflict
from stepagent.executions import execution_status, start_execution
from stepagent.interactions import answer
from stepagent.llm.registry import MODELS_FILE, ModelSpec, load_models
from stepagent.runs import ENDED, Principal, Run, RunKey, SessionKey
from stepagent.settings import settings
from stepagent.store.journal import last_event
from stepagent.store.runs import create_run, load_run, load_session, require_run

_START_GRACE = timedelta(seconds=30)  # between a run's record and its execution lie milliseconds


class Following(NamedTuple):
    """A run to follow, from behind event number `after`."""

    run: Run
    after: int


def catalog() -> Catalog:
    return load_catalog(settings().catalog_dir)


def models() -> dict[str, ModelSpec]:
    return load_models(settings().catalog_dir / MODELS_FILE)


def say(request: ChatRequest, principal: Principal) -> Following:
    """Answers the question that the session waits with, or starts a run.

    Raises:
        NotFound: there is no such agent.
        Conflict: the session's run is still going on.
    """
    rows = catalog()
    agent = rows.agent(request.model)
    session_id = request.session_id or f"session-{secrets.token_urlsafe(12)}"
    key = session_key_of(principal, session_id)
    session = load_session(key)
    if session.active:
        active = load_run(session.active)
        if active and (following := _continue(active, request)):
            return following
    run = Run(
        run_id=RunKey(key, session.runs + 1).run_id,
        session_id=session_id,
        owner=principal,
        agent=_with_wishes(agent, request),
        tools=rows.tools_of(agent),
        system=request.system,
        created_at=now(),
    )
    try:
        create_run(run, request.conversation())
    except RecordConflict as error:  # another request of this session was quicker
        raise Conflict("Another run of this session has just begun.", "session_id", "session_busy") from error
    start_execution(run.run_id)
    return Following(run, 0)


def read_run(run_id: str, principal: Principal) -> Run:
    """One run of this principal.

    Raises:
        NotFound: there is none, or it is another principal's.
    """
    run = require_run(run_id)
    if run.owner != principal:
        raise NotFound(f"There is no run {run_id!r}.")
    return run


def session_key_of(principal: Principal, session_id: str) -> SessionKey:
    """Where a principal's session stands. Two principals never share one, whatever names they give."""
    digest = hashlib.sha256(f"{principal}\0{session_id}".encode()).digest()
    return SessionKey(b32encode(digest).decode().lower()[:32])


def _continue(active: Run, request: ChatRequest) -> Following | None:
    """Goes on with the session's run where that is possible; None where a new one may begin.

    Raises:
        Conflict: it is still going on, and asks nothing.
    """
    if active.status in ENDED:
        return None
    if _is_lost(active):
        finalize(active.run_id, "LOST")
        return None
    if not active.pending:
        raise Conflict(f"Run {active.run_id} of this session is still going on.", "session_id", "session_busy")
    event = last_event(active.run_id)
    answer(active.pending[0], active.owner, request.messages[-1].text)
    return Following(active, event.n if event else 0)


def _is_lost(active: Run) -> bool:
    """Whether a run that has not ended has no execution any more that could end it."""
    status = execution_status(active.run_id)
    if status is None:
        return now() - active.created_at > _START_GRACE
    return status != "RUNNING"


def _with_wishes(agent: AgentSpec, request: ChatRequest) -> AgentSpec:
    """The agent with what this request asks for otherwise; it may lower the agent's bounds, not raise them."""
    limits = agent.limits
    if request.max_output_tokens:
        most = min(request.max_output_tokens, limits.max_output_tokens or request.max_output_tokens)
        limits = limits.model_copy(update={"max_output_tokens": most})
    temperature = agent.temperature if request.temperature is None else request.temperature
    return agent.model_copy(update={"limits": limits, "temperature": temperature})
