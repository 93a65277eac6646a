"""The terminal client: one question, or a conversation."""

import secrets
import sys
from collections.abc import Callable

from rich.console import Console

from local.api_client import AGENT, ApiClient, ApiError, Said
from local.ask_person import ask_person
from local.inbox import tell_outcome, wait_for_rest
from local.live_view import LiveView
from local.prompts import Prompts
from local.run_on_screen import RunOnScreen
from local.view import Closing, PlainView, View, counted

COMPLETED, FAILED, NOT_ANSWERED, CANCELLED = 0, 1, 3, 130  # exit codes

HELP = """\
/new    begin a new session        /help   this text
/answer answer what is left open   /quit   end (also Ctrl-D)
Ctrl-C  cancel what works          Ctrl-C  at a question: leave it open"""

_LEFT_OPEN = {  # by whether a conversation goes on, and whether the stack ends with the chat that started it
    (True, False): "Left open; the run waits. Answer it here with /answer, or in any terminal with `make inbox`.",
    (True, True): "Left open; the run waits while this chat's stack runs. /answer or `make inbox` answers it.",
    (False, False): "Left open; the run waits. `make inbox` answers it.",
    (False, True): "Left open, but this chat's stack ends now, and the run with it. After `make up` runs wait on.",
}
_EXIT_CODES = {"completed": COMPLETED, "cancelled": CANCELLED}
_JOINED_S = 23 * 3600  # the API knows a message again for 24 hours


class Chat:
    """A person's side of a session with an agent."""

    def __init__(
        self,
        client: ApiClient,
        console: Console,
        read_line: Callable[[str], str],
        prompts: Prompts,
        *,
        agent: str = AGENT,
        strategy: str = "",
        tied: bool = False,
    ) -> None:
        self._read_line, self._prompts = read_line, prompts
        self._client, self._agent, self._strategy, self._session = client, agent, strategy, _new_session()
        self._view: View = LiveView(console) if console.is_terminal else PlainView(console)
        self._left: RunOnScreen | None = None  # it asks, and the person left that open
        self._conversing, self._tied = False, tied

    def ask(self, question: str) -> int:
        """Ask one question, and the person what the agent asks back; return the exit code.

        Raises:
            ApiError: the API refused or broke off.
            NobodyAnswers: the agent asks, and there is no input left.
        """
        said = Said(question, self._session, secrets.token_hex(16), self._agent, self._strategy)
        return self._finish(RunOnScreen(self._client, self._view, said))

    def _finish(self, run: RunOnScreen) -> int:
        self._left = None
        closing = self._follow(run)
        while closing.questions:
            try:
                self._ask_person([each["interaction_id"] for each in closing.questions])
            except KeyboardInterrupt:
                self._left = run
                self._say(_LEFT_OPEN[self._conversing, self._tied])
                return NOT_ANSWERED
            if run.age_s > _JOINED_S:
                return self._end_unseen(closing.run_id)
            closing = self._follow(run)
        return _EXIT_CODES.get(closing.status, FAILED)

    def _end_unseen(self, run_id: str) -> int:
        """The API knows the message no more, so that its events cannot be read again."""
        run = wait_for_rest(self._client, run_id)
        tell_outcome(self._prompts, run)
        return _EXIT_CODES.get(run["status"], FAILED)

    def _follow(self, run: RunOnScreen) -> Closing:
        try:
            return run.follow()
        except KeyboardInterrupt:
            which = f"run {run.run_id}" if run.run_id else "the run"
            self._say(f"No longer waiting; {which} may go on.")
            raise

    def _ask_person(self, questions: list[str]) -> None:
        for number, question in enumerate(questions, 1):
            if len(questions) > 1:
                self._say(f"\n{number} of {counted(len(questions), 'question')}:")
            ask_person(self._client, self._prompts, question)

    def converse(self) -> int:
        """Read questions until the input ends; the exit code tells whether all were answered."""
        self._conversing, code = True, COMPLETED
        while True:
            try:
                line = self._read_line("\n› ").strip()
            except KeyboardInterrupt:
                self._say("\nCtrl-D ends.")
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
                self._session, self._left = _new_session(), None
                self._say("A new session.")
            case "/answer" if self._left:
                left = self._left
                return self._patiently(lambda: self._finish(left))
            case "/answer":
                self._say("Nothing is left open in this session. `make inbox` lists what waits in others.")
            case _ if line.startswith("/"):
                self._say(f"There is no command {line.split(maxsplit=1)[0]}.\n{HELP}")
            case _:
                return self._patiently(lambda: self._ask_next(line))
        return COMPLETED

    def _ask_next(self, question: str) -> int:
        """A message to a run that waits would be taken for an answer, and not everyone who writes one means that."""
        if self._left and self._client.read_run(self._left.run_id)["status"] == "waiting":
            self._say("The agent still waits for an answer: /answer gives it, /new begins a session beside this one.")
            return COMPLETED
        return self.ask(question)

    def _patiently(self, act: Callable[[], int]) -> int:
        """Neither a failure nor an interruption of one question ends the conversation."""
        try:
            return FAILED if act() == FAILED else COMPLETED
        except KeyboardInterrupt:
            return COMPLETED  # what becomes of the run was said
        except ApiError as error:
            if error.code == "unreachable":
                raise
            hint = " Try again later, or /new." if error.code == "session_busy" else ""
            self._say(f"{error}{hint}")
            return FAILED

    def _say(self, text: str) -> None:
        self._prompts.show(text, "dim")


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
