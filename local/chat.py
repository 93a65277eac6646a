"""The terminal client: one question, or a conversation."""

import secrets
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from rich.console import Console

from local.api_client import ApiClient, ApiError, Event
from local.live_view import LiveView
from local.view import Closing, PlainView, View, arguments_line, shortened

COMPLETED, FAILED, NOT_ANSWERED = 0, 1, 3  # exit codes

HELP = """\
/new    begin a new session     /help   this text
/quit   end (also Ctrl-D)       Ctrl-C  stop waiting for a reply"""


AnsweredT = TypeVar("AnsweredT")


class NobodyAnswers(RuntimeError):
    """The agent asks, and standard input has no more lines."""


class Chat:
    """A person's side of a session."""

    def __init__(self, base_url: str, console: Console, read_line: Callable[[str], str]) -> None:
        self._base_url, self._console, self._read_line = base_url, console, read_line
        self._client = ApiClient(base_url, _new_session())
        self._tools: dict[str, str] = {}  # names by the id of the call
        self._asked: set[str] = set()  # calls whose result the person types
        self._view: View = LiveView(console) if console.is_terminal else PlainView(console)

    def ask(self, question: str) -> int:
        """Ask one question, and the person what the agent asks back; return the exit code.

        Raises:
            ApiError: the API refused or broke off.
            NobodyAnswers: the agent asks, and there is no input left.
        """
        self._calls = 0
        closing = self._follow(question)
        while closing.questions:
            *others, last = closing.questions
            for other in others:
                self._until_it_fits(partial(self._answer, other))
            # What stands alone was shown with the reply.
            closing = self._until_it_fits(partial(self._answer_last, last["text"] if others else ""))
        return COMPLETED if closing.status == "completed" else FAILED

    def _answer(self, question: dict[str, Any]) -> None:
        self._client.answer(question["interaction_id"], self._ask_person(question["text"]))

    def _answer_last(self, question: str) -> Closing:
        return self._follow(self._ask_person(question))

    def _until_it_fits(self, answer: Callable[[], AnsweredT]) -> AnsweredT:
        """Asks again where an answer is none of the options, or leaves a field out."""
        while True:
            try:
                return answer()
            except ApiError as error:
                if error.code != "invalid_answer":
                    raise
                self._say(str(error))

    def converse(self) -> int:
        """Read questions until the input ends; the exit code tells whether all were answered."""
        code = COMPLETED
        while True:
            try:
                line = self._read_line("\n› ").strip()
            except KeyboardInterrupt:
                self._say("Ctrl-D ends.")
                continue
            except EOFError:
                self._say("")
                return code
            if line in ("/quit", "/exit"):
                return code
            if line:
                code = max(code, self._handle(line))

    def _handle(self, line: str) -> int:
        match line:
            case "/help":
                self._say(HELP)
            case "/new":
                self._client = ApiClient(self._base_url, _new_session())
                self._say("A new session.")
            case _ if line.startswith("/"):
                self._say(f"There is no command {line.split(maxsplit=1)[0]}.\n{HELP}")
            case _:
                return self._ask_patiently(line)
        return COMPLETED

    def _ask_patiently(self, question: str) -> int:
        """A failure of one question does not end the conversation."""
        try:
            return self.ask(question)
        except KeyboardInterrupt:
            self._say("No longer waiting. The run goes on; /new begins a session beside it.")
            return COMPLETED
        except ApiError as error:
            if error.code == "unreachable":
                raise
            hint = " Try again later, or /new." if error.code == "session_busy" else ""
            self._say(f"{error}{hint}")
            return FAILED

    def _follow(self, text: str) -> Closing:
        """Show a run until it ends or asks."""
        started, closing = time.monotonic(), Closing()
        self._view.begin()
        shown: Closing | None = None
        try:
            for event in self._client.say(text):
                self._show(event, closing)
            shown = closing
        finally:
            closing.calls, closing.seconds = self._calls, time.monotonic() - started
            self._view.end(shown)
        return closing

    def _show(self, event: Event, closing: Closing) -> None:
        match event.name:
            case "flowNodeStatus":
                self._view.turn(event.data["name"])
            case "toolCall":
                self._tools[event.data["tool"]["id"]] = event.data["tool"]["toolName"]
                self._calls += 1
            case "toolParams":
                tool = event.data["tool"]
                self._view.called(self._tools.get(tool["id"], "tool"), arguments_line(tool["params"]))
            case "toolResponse":
                self._show_result(event.data["tool"])
            case "answer" | "error":
                self._show_answer(event.data, closing)

    def _show_result(self, tool: dict[str, Any]) -> None:
        if tool["id"] not in self._asked or tool["isError"]:
            name = self._tools.get(tool["id"], "tool")
            self._view.returned(name, shortened(tool["response"]), is_error=tool["isError"])

    def _show_answer(self, data: dict[str, Any], closing: Closing) -> None:
        for choice in data.get("choices", []):
            if reasoning := choice["delta"].get("reasoning_content"):
                self._view.reasoning(reasoning)
            if text := choice["delta"].get("content"):
                self._view.text(text)
        if standing := data.get("stepagent"):
            closing.status, closing.run_id, closing.turns = standing["status"], standing["run_id"], standing["turns"]
            closing.questions = standing.get("interactions", [])
            self._asked.update(each["call_id"] for each in closing.questions if self._answers(each))
        if usage := data.get("usage"):
            closing.tokens = (usage["prompt_tokens"], usage["completion_tokens"])
        if error := data.get("error"):
            closing.failure = error["message"]

    def _answers(self, question: dict[str, Any]) -> bool:
        """Whether the person's answer is the result of the call, not a leave to run it or one of an agent's steps."""
        return bool(question["type"] != "approval" and self._tools.get(question["call_id"]) == question["tool"])

    def _ask_person(self, question: str) -> str:
        """The person's answer. The question itself was shown with the reply, unless several are open."""
        if question:
            self._say(question)
        while True:
            try:
                answer = self._read_line("your answer › ").strip()
            except EOFError:
                raise NobodyAnswers(
                    "The agent asks, and standard input has no answer. Ask on a terminal, or pipe one line per answer."
                ) from None
            if answer:
                return answer

    def _say(self, text: str) -> None:
        self._console.print(text, style="dim", markup=False, highlight=False, soft_wrap=True)


def read_line(prompt: str) -> str:
    """One line of standard input; the prompt is for people only."""
    if sys.stdin.isatty():
        return input(prompt)
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line


def _new_session() -> str:
    return f"terminal-{secrets.token_hex(6)}"
