"""One message's run, shown while it works: each of its events once, and ended by Ctrl-C."""

import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any

from local.api_client import ApiClient, ApiError, Event, Said
from local.terminal import first_interrupt, unechoed
from local.view import Closing, View, arguments_line, shortened, show_planning

_STILL_RUNS = "run_still_going_on"  # a stream ends before a run that takes long


class RunOnScreen:
    """What came of a message. It can be followed again after the run rested: it goes on where it stopped."""

    def __init__(self, client: ApiClient, view: View, said: Said) -> None:
        self._client, self._view, self._said = client, view, said
        self._seen = 0  # events
        self._tools: dict[str, str] = {}  # names by the id of the call
        self._asked: set[str] = set()  # calls whose result the person types
        self._calls, self._worked_s = 0, 0.0  # people's time is not counted
        self._steps: set[str] = set()  # of its plan, those that ran
        self._begun = time.monotonic()
        self._run_known = threading.Event()
        self._canceller: threading.Thread | None = None
        self.run_id = ""

    @property
    def age_s(self) -> float:
        """Seconds since the message was said first."""
        return time.monotonic() - self._begun

    def follow(self) -> Closing:
        """Show what happens until the run ends or waits for people. The first Ctrl-C cancels it.

        Raises:
            ApiError: the API refused or broke off.
            KeyboardInterrupt: the second Ctrl-C.
        """
        started, closing = time.monotonic(), Closing()
        shown: Closing | None = None
        self._view.begin()
        try:
            with unechoed(), first_interrupt(self._cancel_soon):
                while closing.goes_on:
                    for event in without_question_texts(self._new_events()):
                        self._show(event, closing)
                if self._canceller and self.run_id:
                    self._canceller.join()
            shown = closing
        finally:
            self._worked_s += time.monotonic() - started
            closing.calls, closing.steps, closing.seconds = self._calls, len(self._steps), self._worked_s
            self._view.end(shown)
        return closing

    def _new_events(self) -> Iterator[Event]:
        """The events that were not seen yet. Those behind `flowResponses` tell how the run stands, anew each time."""
        standing = False
        for number, event in enumerate(self._client.say(self._said), 1):
            standing = standing or event.name == "flowResponses"
            if standing or number > self._seen:
                self._seen = self._seen if standing else number
                yield event

    # ---- cancelling

    def _cancel_soon(self) -> None:
        """Between any two steps of the main thread, which may hold the view's lock: another thread does it."""
        self._canceller = threading.Thread(target=self._cancel, daemon=True)
        self._canceller.start()

    def _cancel(self) -> None:
        self._view.note("Cancelling the run. Ctrl-C again leaves at once, whatever becomes of it.")
        self._run_known.wait()
        try:
            self._client.cancel(self.run_id)
        except ApiError as error:
            self._view.note(f"The run could not be cancelled: {error}")

    # ---- showing

    def _show(self, event: Event, closing: Closing) -> None:
        match event.name:
            case "flowNodeStatus":
                self._view.turn(event.data["name"])
            case "toolCall":
                self._tools[event.data["tool"]["id"]] = event.data["tool"]["toolName"]
                self._calls += 1
            case "toolParams":
                tool = event.data["tool"]
                self._view.called(tool["id"], self._tools.get(tool["id"], "tool"), arguments_line(tool["params"]))
            case "toolResponse":
                self._show_result(event.data["tool"])
            case "answer" | "error":
                self._show_answer(event.data, closing)
            case _:
                show_planning(self._view, event.name, event.data)
                if event.name == "step.completed":
                    self._steps.add(event.data["id"])

    def _show_result(self, tool: dict[str, Any]) -> None:
        if tool["id"] not in self._asked or tool["isError"]:
            name = self._tools.get(tool["id"], "tool")
            self._view.returned(tool["id"], name, shortened(tool["response"]), is_error=tool["isError"])

    def _show_answer(self, data: dict[str, Any], closing: Closing) -> None:
        for choice in data.get("choices", []):
            if reasoning := choice["delta"].get("reasoning_content"):
                self._view.reasoning(reasoning)
            if text := choice["delta"].get("content"):
                self._view.text(text)
        if standing := data.get("stepagent"):
            self._note_standing(standing, closing)
        if usage := data.get("usage"):
            closing.tokens = (usage["prompt_tokens"], usage["completion_tokens"])
        if (error := data.get("error")) and error["code"] != _STILL_RUNS:
            closing.failure = error["message"]

    def _note_standing(self, standing: dict[str, Any], closing: Closing) -> None:
        closing.status, closing.run_id, closing.turns = standing["status"], standing["run_id"], standing["turns"]
        closing.questions = standing.get("interactions", [])
        self._asked.update(each["call_id"] for each in closing.questions if self._answers(each))
        self.run_id = closing.run_id
        self._run_known.set()

    def _answers(self, question: dict[str, Any]) -> bool:
        """Whether the person's answer is the result of the call, not a leave to run it or one of an agent's steps."""
        return bool(question["type"] != "approval" and self._tools.get(question["call_id"]) == question["tool"])


def without_question_texts(events: Iterable[Event]) -> Iterator[Event]:
    """The events without those texts that put a question in words: each comes just before the question itself."""
    held: Event | None = None
    for event in events:
        if held and event.name != "interactive":
            yield held
        held = event if _is_text(event) else None
        if held is None:
            yield event
    if held:
        yield held


def _is_text(event: Event) -> bool:
    return event.name == "answer" and any(choice["delta"].get("content") for choice in event.data.get("choices", []))
