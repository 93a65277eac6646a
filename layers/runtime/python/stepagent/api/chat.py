"""A followed run as a chat completion, streamed or whole, plain or with detail events."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

from stepagent.api import shapes
from stepagent.api.follow import Progress, follow
from stepagent.api.requests import ChatRequest
from stepagent.api.service import Following, read_run
from stepagent.observe import logger
from stepagent.runs import Run, RunStatus
from stepagent.store.journal import Event

_SILENT_S = 4.5 * 60  # API Gateway ends a response on which nothing came for 5 minutes
_ANSWERED = frozenset({RunStatus.COMPLETED, RunStatus.WAITING})


class Transcript:
    """What a person sees of a run, event by event. Texts of different turns stand apart."""

    def __init__(self) -> None:
        self.text = ""
        self.reasoning = ""
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
    """Server-sent events of a run; closed by `[DONE]`, whatever happens."""
    try:
        async for part in _stream(request, following):
            yield part
    except Exception:
        logger.exception("stream broke", extra={"run_id": following.run.run_id})
        yield shapes.sse(shapes.failure(None), "error" if request.detail else "")
    yield shapes.DONE


async def whole_chat(following: Following) -> dict[str, Any]:
    """The chat completion of a run that has ended or waits, or its error object.

    A run that takes longer than a silent request may is told by a completion without choices.
    """
    run, progress, transcript = following.run, Progress(), Transcript()
    async for event in follow(run.run_id, following.after, progress, _SILENT_S):
        if event is not None:
            transcript.add(event)
    run = await asyncio.to_thread(read_run, run.run_id, run.owner)
    if run.status is RunStatus.RUNNING:
        return shapes.unfinished(run)
    if run.status not in _ANSWERED:
        return _broken(run)
    return shapes.completion(run, transcript.text, transcript.reasoning, stepagent=_standing(run, progress))


async def _stream(request: ChatRequest, following: Following) -> AsyncIterator[bytes]:
    run, answer = following.run, "answer" if request.detail else ""
    progress, transcript = Progress(), Transcript()
    yield shapes.sse(shapes.chunk(run, {"role": "assistant", "content": ""}, stepagent=shapes.extension(run)), answer)
    async for event in follow(run.run_id, following.after, progress):
        if event is None:
            yield shapes.KEEP_ALIVE
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
    answer = "answer" if request.detail else ""
    if request.detail:
        yield shapes.sse(_responses(run), "flowResponses")
    if run.status not in _ANSWERED:
        yield shapes.sse(_broken(run), "error" if request.detail else "")
        return
    yield shapes.sse(shapes.chunk(run, {}, shapes.finish_reason(run), stepagent=_standing(run, progress)), answer)
    if request.stream_options and request.stream_options.include_usage:
        counted = {**shapes.envelope(run, "chat.completion.chunk"), "choices": [], "usage": shapes.usage(run.usage)}
        yield shapes.sse(counted, answer)


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


def _standing(run: Run, progress: Progress) -> dict[str, Any]:
    """How the run stands, with the questions that wait for an answer."""
    order = {question: number for number, question in enumerate(run.pending)}
    shown = sorted(progress.questions.values(), key=lambda each: order.get(each["interaction_id"], len(order)))
    questions = shown if run.status is RunStatus.WAITING else []
    return {**shapes.extension(run), "interactions": questions}


def _responses(run: Run) -> list[dict[str, Any]]:
    return [
        {
            "moduleName": run.agent.name,
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
