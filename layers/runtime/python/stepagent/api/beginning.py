"""How a request begins a run in its session, or answers the question with which the session waits."""

import hashlib
import secrets
from base64 import b32encode
from typing import NamedTuple

from stepagent.agents import AgentSpec
from stepagent.answering import answer
from stepagent.api.requests import ChatRequest
from stepagent.api.wishes import as_wanted
from stepagent.catalog import find_agent
from stepagent.clock import now
from stepagent.ending import finalize
from stepagent.errors import Conflict, InvalidAnswer, InvalidRequest, NotFound, RecordConflict
from stepagent.executions import LOST, start_execution
from stepagent.replies.places import check_reply_to
from stepagent.resuming import ensure_execution
from stepagent.runs import ENDED, BatchPlace, InteractionId, Principal, Run, RunId, RunKey, SessionKey
from stepagent.spending import UsedKey, within_budget
from stepagent.store.idempotency import Begun, IdempotencyKey, note_begun
from stepagent.store.journal import last_event
from stepagent.store.keys import read_spent
from stepagent.store.runs import Session, create_run, load_run, load_session, require_run


class Following(NamedTuple):
    """A run to follow, from behind event number `after`."""

    run: Run
    after: int


def session_key_of(principal: Principal, session_id: str) -> SessionKey:
    """Where a principal's session stands. Two principals never share one, whatever names they give."""
    digest = hashlib.sha256(f"{principal}\0{session_id}".encode()).digest()
    return SessionKey(b32encode(digest).decode().lower()[:32])


def begin_or_answer(
    request: ChatRequest,
    principal: Principal,
    key: IdempotencyKey | None,
    *,
    may_answer: bool = True,
    used_key: UsedKey | None = None,
    batch: BatchPlace | None = None,
) -> Following:
    """Starts a run, or, where it may, answers the question that the session waits with."""
    found = find_agent(request.model)
    session_id = request.session_id or f"session-{secrets.token_urlsafe(12)}"
    session_key = session_key_of(principal, session_id)
    session = load_session(session_key)
    if active := _active_run(session):
        if may_answer and active.pending:
            return _continue(active, request, key)
        raise Conflict(f"Run {active.run_id} of this session is still going on.", "session_id", "session_busy")
    if request.interaction_id:
        raise _no_such_question(request)
    if request.reply_to:
        check_reply_to(request.reply_to)
    run = Run(
        run_id=RunKey(session_key, session.runs + 1).run_id,
        session_id=session_id,
        owner=principal,
        agent=_within_budget(as_wanted(found.agent, request), used_key),
        tools=found.tools,
        versions=found.versions,
        system=request.system,
        metadata=request.metadata,
        user=request.user,
        created_at=now(),
        used_key=used_key,
        batch=batch,
        reply_to=request.reply_to,
    )
    try:
        create_run(run, request.conversation(), key)
    except RecordConflict as error:  # another request of this session was quicker
        raise Conflict("Another run of this session has just begun.", "session_id", "session_busy") from error
    _start(run, key)
    return Following(run, 0)


def with_execution(run_id: RunId) -> Run:
    """A run that was begun, with its loop started, unless it was or has ended."""
    run = require_run(run_id)
    if run.status not in ENDED and not start_execution(run):
        ensure_execution(run)
    return run


def answer_question(run: Run, question: InteractionId, request: ChatRequest) -> None:
    """Answers with the last message of the request."""
    try:
        answer(question, run.owner, request.messages[-1].text)
    except InvalidAnswer as error:  # what it does not fit is the message here
        raise InvalidAnswer(error.message, "messages") from error


def _active_run(session: Session) -> Run | None:
    """The run that goes on in a session or waits for a person; one whose execution cannot be replaced is closed."""
    active = load_run(session.active) if session.active else None
    if active is None or active.status in ENDED:
        return None
    going_on = ensure_execution(active)
    if going_on is None:
        finalize(active.run_id, LOST)
    return going_on


def _continue(active: Run, request: ChatRequest, key: IdempotencyKey | None) -> Following:
    """Answers the question that the request names, or the first with which a session's run waits.

    Raises:
        NotFound: the run waits with no such question.
        InvalidRequest: the request says where a result goes, which the run knows since it began.
    """
    if request.reply_to:
        raise InvalidRequest(f"Run {active.run_id} waits for an answer, and began without this field.", "reply_to")
    if request.interaction_id and request.interaction_id not in active.pending:
        raise _no_such_question(request)
    question = InteractionId(request.interaction_id) if request.interaction_id else active.pending[0]
    event = last_event(active.run_id)
    following = Following(active, event.n if event else 0)
    if key:  # noted before the answer: who comes with the key again finds which question it answers
        note_begun(key, Begun(active.run_id, following.after, question))
    answer_question(active, question, request)
    return following


def _no_such_question(request: ChatRequest) -> NotFound:
    return NotFound(f"This session waits with no question {request.interaction_id!r}.", "interaction_id")


def _within_budget(agent: AgentSpec, used_key: UsedKey | None) -> AgentSpec:
    """The agent, bounded by what is left to spend with a key.

    Raises:
        BudgetSpent: nothing is.
    """
    if used_key is None or used_key.budget is None:
        return agent
    moment, budget = now(), used_key.budget
    limits = within_budget(agent.limits, budget, read_spent(used_key.key_id, budget.per, moment), moment)
    return agent.model_copy(update={"limits": limits})


def _start(run: Run, key: IdempotencyKey | None) -> None:
    """Starts the loop. Where that fails, whoever comes with the key again does it; a run without one is closed."""
    try:
        start_execution(run)
    except Exception:
        if key is None:  # else it would seem to go on for ever, and nobody would know of it
            finalize(run.run_id, LOST)
        raise
