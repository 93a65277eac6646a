"""What the routes of runs and sessions do: runs begun and left to themselves, listed, and read with all that was said.

A list of runs is read from its owner's partition, or from a session's count of its runs: no index, so a run is listed
from the moment at which it began, and what is read is no more than what is shown.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AliasChoices, Discriminator, Field, Tag

from stepagent.agents import ReasoningEffort, Strategy
from stepagent.announcing import view
from stepagent.answering import fitting, read_interaction
from stepagent.api import shapes
from stepagent.api.beginning import session_key_of
from stepagent.api.body import FORMS, Body, read_body
from stepagent.api.chat_fields import Metadata, ResponseFormat, StopText
from stepagent.api.content import ChatMessage
from stepagent.api.conversation import shown_entries
from stepagent.api.keys import Caller
from stepagent.api.query import Query
from stepagent.api.requests import ChatRequest, check_said
from stepagent.api.service import read_run, say
from stepagent.errors import InvalidRequest, NotFound
from stepagent.replies.reply_to import ReplyTo
from stepagent.runs import ENDED, Principal, Run, RunKey, RunStatus, SessionKey
from stepagent.store.conversation import load_conversation
from stepagent.store.runs import list_runs, load_run, load_session

MAX_LISTED = 100
_MAX_READ = 200  # runs that one request reads, where it looks for those of a status
_SESSIONS_RUNS = 20
_NOT_IN_LISTS = frozenset({"answer", "plan", "versions", "reply_to"})  # which may be long, or nobody else's to see


class RunRequest(Body):
    """A run to begin, which nobody waits for. `input` is a text, or messages as those of a chat completion."""

    agent: str = Field(validation_alias=AliasChoices("agent", "model"))
    input: Annotated[
        Annotated[str, Tag(FORMS[0])] | Annotated[list[ChatMessage], Field(min_length=1), Tag(FORMS[1])],
        Discriminator(lambda given: FORMS[isinstance(given, list)]),
    ]
    session_id: str | None = Field(None, min_length=1, max_length=128)
    metadata: Metadata = Field({})
    user: str = Field("", max_length=512)
    max_output_tokens: int | None = Field(None, ge=1)
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, ge=0, le=1)
    stop: list[StopText] = Field([], max_length=4)
    reasoning_effort: ReasoningEffort | None = None
    strategy: Strategy | None = Field(None, description="How the agent works on it, in place of its own way.")
    reasoning: Literal["cot"] | None = Field(None, description="Has the agent think each reply through before it.")
    response_format: ResponseFormat | None = None
    reply_to: ReplyTo | None = Field(None, description="Where the result is sent when the run has ended.")

    def as_chat(self) -> ChatRequest:
        """The same request as a chat completion."""
        said = [ChatMessage(role="user", content=self.input)] if isinstance(self.input, str) else self.input
        return ChatRequest(
            model=self.agent,
            messages=said,
            session_id=self.session_id,
            metadata=self.metadata,
            user=self.user,
            max_completion_tokens=self.max_output_tokens,
            temperature=self.temperature,
            top_p=self.top_p,
            stop=self.stop,
            reasoning_effort=self.reasoning_effort,
            strategy=self.strategy,
            reasoning=self.reasoning,
            response_format=self.response_format,
            reply_to=self.reply_to,
        )


class RunsQuery(Query):
    """Which runs to list. `after` is the id behind which the list goes on, which is `next` of the page before."""

    session_id: str | None = Field(None, min_length=1, max_length=128)
    status: RunStatus | None = None
    limit: int = Field(20, ge=1, le=MAX_LISTED)
    after: str | None = None


class EntriesQuery(Query):
    """Which entries of a run's conversation to show: those behind number `after`."""

    limit: int = Field(50, ge=1, le=MAX_LISTED)
    after: int = Field(0, ge=0)


class _Page(NamedTuple):
    """Some runs; `next` is where to go on, None at the end."""

    runs: Sequence[Run]
    next: str | None


def read_run_request(body: bytes) -> RunRequest:
    """Reads and checks the body of a run to begin. Raises as `read_chat_request` does."""
    request = read_body(body, RunRequest)
    check_said(request.as_chat().messages, "input")
    return request


def start_run(request: RunRequest, caller: Caller, idempotency_key: str = "") -> dict[str, Any]:
    """Begins a run; with an idempotency key once, however often the request comes.

    Raises:
        NotFound: there is no such agent.
        Conflict: the session's run is still going on, or waits for a person.
        IdempotencyKeyReused: the key was sent with another request.
        BudgetSpent: nothing is left of what may be spent with the caller's key.
    """
    chat, used_key = request.as_chat(), caller.used_key
    return shapes.run_view(say(chat, caller.principal, idempotency_key, may_answer=False, used_key=used_key).run)


def show_runs(query: RunsQuery, principal: Principal) -> dict[str, Any]:
    """Runs that this principal began, the newest first; each without its answer, which reading it alone shows.

    Where a status is asked for, a page may have fewer runs than `limit`, even none, and yet not be the last one.

    Raises:
        NotFound: `after` is no run of this principal.
        InvalidRequest: `after` is a run of another session.
    """
    page = _page(query, principal)
    data = [_summary(run) for run in page.runs]
    return {"object": "list", "data": data, "has_more": page.next is not None, "next": page.next}


def show_conversation(run_id: str, query: EntriesQuery, principal: Principal) -> dict[str, Any]:
    """What was said in a run and what its calls came to, in order and numbered.

    Raises:
        NotFound: there is no such run, or it is another principal's.
    """
    run = read_run(run_id, principal)
    shown, more = shown_entries(load_conversation(run.key), query.after, query.limit)
    return {"object": "list", "data": shown, "has_more": more, "next": shown[-1]["n"] if more else None}


def show_session(session_id: str, principal: Principal) -> dict[str, Any]:
    """A session as it stands: its latest runs, the one that is active, and the questions that wait for an answer.

    Of the questions, the first ones that come to some megabytes; the active run has the ids of all.

    Raises:
        NotFound: this principal has none of that name.
    """
    session = load_session(session_key_of(principal, session_id))
    if not session.runs:
        raise NotFound(f"There is no session {session_id[:128]!r}.", "session_id")
    page = _page(RunsQuery(session_id=session_id, limit=_SESSIONS_RUNS), principal)
    active = load_run(session.active) if session.active else None
    going_on = active if active and active.status not in ENDED else None
    questions = (read_interaction(question, principal) for question in (going_on.pending if going_on else ()))
    return {
        "object": "session",
        "id": session_id,
        "active_run": going_on.run_id if going_on else None,
        "interactions": [view(question) for question in fitting(questions, view)],
        "runs": [_summary(run) for run in page.runs],
        "has_more": page.next is not None,
    }


def _page(query: RunsQuery, principal: Principal) -> _Page:
    after = _last_shown(query.after, principal) if query.after else None
    most = _MAX_READ if query.status else query.limit
    keys = list(islice(_keys(query, principal, after, most + 1), most + 1))
    found: list[Run] = []
    for read, key in enumerate(keys[:most], 1):
        run = load_run(key)
        if run and query.status in (None, run.status):
            found.append(run)
        if len(found) == query.limit:
            return _Page(found, key.run_id if read < len(keys) else None)
    return _Page(found, keys[most - 1].run_id if len(keys) > most else None)


def _last_shown(run_id: str, principal: Principal) -> Run:
    try:
        return read_run(run_id, principal)
    except NotFound as error:
        raise NotFound(error.message, "after") from error


def _keys(query: RunsQuery, principal: Principal, after: Run | None, most: int) -> Iterator[RunKey]:
    if query.session_id is None:
        return iter(list_runs(principal, most, after))
    session = session_key_of(principal, query.session_id)
    if after and after.key.session != session:
        raise InvalidRequest(f"Run {after.run_id} belongs to another session.", "after")
    return _ordinals(session, after.key.ordinal if after else load_session(session).runs + 1)


def _ordinals(session: SessionKey, before: int) -> Iterator[RunKey]:
    return (RunKey(session, ordinal) for ordinal in range(before - 1, 0, -1))


def _summary(run: Run) -> dict[str, Any]:
    return {name: value for name, value in shapes.run_view(run).items() if name not in _NOT_IN_LISTS}
