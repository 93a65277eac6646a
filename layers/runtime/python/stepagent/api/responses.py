"""A followed run as a response of OpenAI's Responses API, streamed, whole, or read later."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

from stepagent.api import shapes
from stepagent.api.beginning import Following
from stepagent.api.chat import Transcript
from stepagent.api.follow import SILENT_S, Progress, follow
from stepagent.api.idempotency import begun_with, request_key
from stepagent.api.keys import Caller
from stepagent.api.responses_requests import ResponseRequest
from stepagent.api.responses_shapes import Events, PartKind, Said, id_of, response, run_id_of
from stepagent.api.service import read_run, say
from stepagent.errors import Conflict, InvalidRequest, NotFound
from stepagent.observe import logger
from stepagent.runs import Principal, Run, RunId, RunKey, RunStatus, StopReason
from stepagent.store.journal import Event, read_events
from stepagent.store.runs import load_session

_PREVIOUS = "previous_response_id"


class _Told:
    """What the events of a run come to; `ignored` are fields of the request to tell of."""

    def __init__(self, ignored: Sequence[str] = ()) -> None:
        self._ignored = ignored
        self.progress = Progress()
        self._transcript = Transcript()
        self._calls: dict[str, dict[str, Any]] = {}

    def add(self, event: Event) -> tuple[PartKind, str] | None:
        """What an event adds for a person to read, and of which kind it is."""
        match event.type:
            case "message.completed":
                for call in event.data["calls"]:
                    self._calls[call["id"]] = {"id": call["id"], "name": call["name"], "status": "pending"}
            case "tool.completed" if event.data["id"] in self._calls:
                self._calls[event.data["id"]] |= {"status": "done", "is_error": event.data["is_error"]}
        match self._transcript.add(event):
            case {"content": text}:
                return "text", text
            case {"refusal": text}:
                return "refusal", text
            case _:
                return None

    def said(self, run: Run) -> Said:
        """All that was said; of events that are kept no longer, the run's answer is left."""
        if self._transcript.text or self._transcript.refusal:
            return Said(self._transcript.text, self._transcript.refusal)
        return Said(refusal=run.answer) if run.stop_reason is StopReason.REFUSED else Said(run.answer)

    def as_response(self, run: Run) -> dict[str, Any]:
        questions = [each for each in self.progress.questions.values() if each["interaction_id"] in run.pending]
        shown = questions if run.status is RunStatus.WAITING else []
        return response(run, self.said(run), list(self._calls.values()), shown, self._ignored)


def begin_response(request: ResponseRequest, caller: Caller, idempotency_key: str = "") -> Following:
    """Begins a run, in the session of the previous response where one is named, or answers its question.

    Raises:
        NotFound: there is no such agent, or no such response.
        Conflict: the previous response is not the last one of its session, or still goes on.
        IdempotencyKeyReused: the key was sent with another request.
        BudgetSpent: nothing is left of what may be spent with the caller's key.
    """
    previous = _previous(request, caller.principal)
    chat = request.as_chat(previous.session_id if previous else None)
    comes_again = idempotency_key and begun_with(request_key(chat, caller.principal, idempotency_key))
    if previous and not comes_again:
        _check_last(previous)
    return say(chat, caller.principal, idempotency_key, used_key=caller.used_key)


def show_response(response_id: str, principal: Principal) -> dict[str, Any]:
    """A run as a response, as it stands.

    Raises:
        NotFound: there is none, or it is another principal's.
    """
    run, told = _find(response_id, principal), _Told()
    for event in _all_events(run.run_id):
        told.progress.see(event)
        told.add(event)
    return told.as_response(run)


async def whole_response(following: Following, ignored: Sequence[str] = ()) -> dict[str, Any]:
    """The response of a run that has ended or waits; `in_progress` where it takes longer than a silent request may."""
    run, told = following.run, _Told(ignored)
    async for event in follow(run.run_id, following.after, told.progress, SILENT_S):
        if event is not None:
            told.add(event)
    return told.as_response(await asyncio.to_thread(read_run, run.run_id, run.owner))


async def stream_response(following: Following, ignored: Sequence[str] = ()) -> AsyncIterator[bytes]:
    """Server-sent events of a run; the last one tells how it ended, or that the stream broke."""
    events = Events(following.run)
    try:
        async for part in _stream(following, events, ignored):
            yield part
    except Exception:
        logger.exception("stream broke", extra={"run_id": following.run.run_id})
        yield events.fail(shapes.stream_broke(following.run)["error"])


async def _stream(following: Following, events: Events, ignored: Sequence[str]) -> AsyncIterator[bytes]:
    run, told = following.run, _Told(ignored)
    for part in events.begin():
        yield part
    async for event in follow(run.run_id, following.after, told.progress):
        if event is not None and (added := told.add(event)):
            for part in events.say(*added):
                yield part
    run = await asyncio.to_thread(read_run, run.run_id, run.owner)
    if run.status is RunStatus.RUNNING:
        yield events.fail(shapes.still_running(run)["error"])
        return
    for part in events.end(told.as_response(run), told.said(run)):
        yield part


def _all_events(run_id: RunId) -> list[Event]:
    events: list[Event] = []
    while found := read_events(run_id, len(events)):  # a read brings about 1 MB
        events += found
    return events


def _find(response_id: str, principal: Principal) -> Run:
    try:
        return read_run(run_id_of(response_id), principal)
    except NotFound as error:
        raise NotFound(f"There is no response {response_id[:80]!r}.") from error


def _previous(request: ResponseRequest, principal: Principal) -> Run | None:
    if request.previous_response_id is None:
        return None
    try:
        previous = _find(request.previous_response_id, principal)
    except NotFound as error:
        raise NotFound(error.message, _PREVIOUS) from error
    if previous.parent:
        raise InvalidRequest("A called agent's run cannot be gone on from.", _PREVIOUS)
    return previous


def _check_last(previous: Run) -> None:
    """A session is one conversation: it goes on from its end."""
    session, ordinal = previous.key
    if (last := load_session(session).runs) != ordinal:
        raise Conflict(
            f"{id_of(previous.run_id)} is not the last one of its session: {id_of(RunKey(session, last).run_id)} is.",
            _PREVIOUS,
            "not_the_last_response",
        )
