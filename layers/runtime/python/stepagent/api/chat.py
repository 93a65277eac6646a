"""A followed run as a chat completion, streamed or whole, plain or with detail events."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from stepagent.answering import fitting
from stepagent.api import shapes
from stepagent.api.beginning import Following
from stepagent.api.follow import SILENT_S, Progress, follow
from stepagent.api.requests import ChatRequest
from stepagent.api.service import read_run
from stepagent.api.streams import kept_alive
from stepagent.clock import now
from stepagent.observe import logger
from stepagent.runs import Run, RunStatus
from stepagent.store.journal import Event

_ANSWERED = frozenset({RunStatus.COMPLETED, RunStatus.WAITING})


class Transcript:
    """What a person sees of a run, event by event. Texts of different turns stand apart."""

    def __init__(self) -> None:
        self.text = ""
        self.reasoning = ""
        self.refusal = ""
        self._before = ("", "")
        self._new_paragraph = False
        self._asked: set[str] = set()

    def add(self, event: Event) -> dict[str, str]:
        """The delta that an event adds, {} for none."""
        if event.type == "turn.started":
            self._start(again=event.data["attempt"] > 1)
        if event.type == "interaction.required":
            return self._ask(event.data)
        if event.type != "message.delta":
            return {}
        if reasoning := event.data.get("reasoning"):
            self.reasoning += reasoning
            return {"reasoning_content": reasoning}
        if refusal := event.data.get("refusal"):
            self.refusal += refusal
            return {"refusal": refusal}
        return self._speak(event.data["text"], apart=self._new_paragraph)

    def _ask(self, asked: dict[str, Any]) -> dict[str, str]:
        """A question, once: it is told again where its state was entered anew."""
        if asked["interaction_id"] in self._asked:
            return {}
        self._asked.add(asked["interaction_id"])
        return self._speak(asked.get("text", asked["description"]), apart=True)

    def _start(self, *, again: bool) -> None:
        """A turn begins. What a first try of it said counts no more, though a stream cannot take it back."""
        if again:
            self.text, self.reasoning = self._before
        self._before = (self.text, self.reasoning)
        self._new_paragraph = bool(self.text)

    def _speak(self, text: str, *, apart: bool) -> dict[str, str]:
        said = f"\n\n{text}" if apart and self.text else text
        self.text += said
        self._new_paragraph = False
        return {"content": said}


async def stream_chat(request: ChatRequest, following: Following) -> AsyncIterator[bytes]:
    """Server-sent events of a run; closed by `[DONE]`, whatever happens, and never silent for long."""
    try:
        async for part in kept_alive(_stream(request, following)):
            yield part
    except Exception:
        logger.exception("stream broke", extra={"run_id": following.run.run_id})
        yield _error(request, shapes.stream_broke(following.run))
    yield shapes.DONE


async def whole_chat(following: Following, ignored: Sequence[str] = ()) -> dict[str, Any]:
    """The chat completion of a run that has ended or waits, or its error object; `ignored` are fields to tell of.

    A run that takes longer than a silent request may is told by a completion without choices.
    """
    run, progress, transcript = following.run, Progress(), Transcript()
    async for event in follow(run.run_id, following.after, progress, SILENT_S):
        if event is not None:
            transcript.add(event)
    run = await asyncio.to_thread(read_run, run.run_id, run.owner)
    if run.status is RunStatus.RUNNING:
        return shapes.unfinished(run)
    if not _is_answered(run):
        return _broken(run)
    standing = _standing(run, progress, ignored)
    return shapes.completion(run, transcript.text, transcript.reasoning, transcript.refusal, stepagent=standing)


async def _stream(request: ChatRequest, following: Following) -> AsyncIterator[bytes]:
    run, answer = following.run, _name(request, "answer")
    progress, transcript = Progress(), Transcript()
    began = shapes.extension(run) | shapes.told(request.ignored)
    yield shapes.sse(shapes.chunk(run, {"role": "assistant", "content": ""}, stepagent=began), answer)
    async for event in follow(run.run_id, following.after, progress):
        if event is None:
            continue
        if delta := transcript.add(event):
            yield shapes.sse(shapes.chunk(run, delta), answer)
        if request.detail:
            for name, data in _details(event):
                yield shapes.sse(data, name)
    run = await asyncio.to_thread(read_run, run.run_id, run.owner)
    for part in _closing(request, run, progress):
        yield part


def _closing(request: ChatRequest, run: Run, progress: Progress) -> Iterator[bytes]:
    answer = _name(request, "answer")
    if request.detail:
        yield shapes.sse(_responses(run), "flowResponses")
    if not _is_answered(run):
        yield _error(request, _broken(run))
        return
    standing = _standing(run, progress, request.ignored)
    yield shapes.sse(shapes.chunk(run, {}, shapes.finish_reason(run), stepagent=standing), answer)
    if request.stream_options and request.stream_options.include_usage:
        counted = {**shapes.envelope(run, "chat.completion.chunk"), "choices": [], "usage": shapes.usage(run.usage)}
        yield shapes.sse(counted, answer)


def _name(request: ChatRequest, name: str) -> str:
    """The name of an event; events have names only where details are wanted."""
    return name if request.detail else ""


def _error(request: ChatRequest, body: dict[str, Any]) -> bytes:
    """An error object inside a stream; who wants details reads its message at the top."""
    shown = {"message": body["error"]["message"], **body} if request.detail else body
    return shapes.sse(shown, _name(request, "error"))


def _is_answered(run: Run) -> bool:
    return run.status in _ANSWERED or shapes.is_filtered(run)


def _broken(run: Run) -> dict[str, Any]:
    """The error object of a run that has no answer: it failed, or it takes longer than a request may."""
    match run.status:
        case RunStatus.RUNNING:
            error = shapes.still_running(run)
        case RunStatus.CANCELLED:
            error = shapes.cancelled()
        case _:
            error = shapes.failure(run.failure)
    return error | {"stepagent": shapes.extension(run)}


def _standing(run: Run, progress: Progress, ignored: Sequence[str]) -> dict[str, Any]:
    """How the run stands and what it cost, with the questions that wait for an answer, up to some megabytes."""
    order = {question: number for number, question in enumerate(run.pending)}
    shown = sorted(progress.questions.values(), key=lambda each: order.get(each["interaction_id"], len(order)))
    questions = list(fitting(shown, dict)) if run.status is RunStatus.WAITING else []
    spent = {"cost_usd": shapes.cost_usd(run.usage)}
    return {**shapes.extension(run), **spent, "interactions": questions, **shapes.told(ignored)}


def _responses(run: Run) -> list[dict[str, Any]]:
    return [
        {
            "moduleName": run.agent.name,
            "runningTime": round(((run.ended_at or now()) - run.created_at).total_seconds(), 2),
            "model": run.agent.model,
            "toolCallInputTokens": run.usage.input_tokens,
            "toolCallOutputTokens": run.usage.output_tokens,
        }
    ]


def _details(event: Event) -> Iterator[tuple[str, dict[str, Any]]]:
    """The named events that `detail` adds for one event of the journal."""
    data = event.data
    match event.type:
        case "turn.started":
            yield "flowNodeStatus", {"status": "running", "name": f"turn {data['turn']}"}
        case "message.completed":  # announced here, so that a call which is never run is known before its result
            for call in data["calls"]:
                name = {"id": call["id"], "toolName": call["name"], "functionName": call["name"]}
                yield "toolCall", {"tool": {**name, "params": "", "response": ""}}
        case "tool.started":
            yield "toolParams", {"tool": {"id": data["id"], "params": data["arguments"]}}
        case "tool.completed":
            yield "toolResponse", {"tool": {"id": data["id"], "response": data["text"], "isError": data["is_error"]}}
        case "interaction.required":
            yield "interactive", shapes.interactive(data)
        case "strategy.chosen" | "plan.created" | "plan.updated" | "step.started" | "step.completed":
            yield event.type, data
