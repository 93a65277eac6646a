"""The scripted model that all comparisons share: it keeps to its pace, and remembers when replies began and ended."""

import re
import time
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from bench.spans import Span
from tests.scripted_model import ScriptedModel
from tests.scripted_replies import Json, Reply

ANSWER = "Done."
PERSON = "a person"  # who is asked where a question names one

_LATE_S = 2.0


@dataclass(frozen=True)
class Speech:
    """How fast the model speaks, and how it answers in the end."""

    first_token_s: float = 0.010
    each_token_s: float = 0.001
    token_chars: int = 8
    answer: str = ANSWER

    def __call__(self, request: Json) -> Reply:
        """The reply to a request of a conversation that began with a `question`; it keeps no state."""
        asked, done = _last_question(request)
        found = re.search(r"turns (\d+) calls (\d+)", asked)
        turns, calls = map(int, found.groups()) if found else (0, 0)
        if done >= turns:
            return self._reply(text=self.answer)
        if PERSON in asked:
            return self._reply(calls=(("ask_user", {"question": "Which of the two do you mean?"}),))
        return self._reply(calls=tuple(("calculator", {"expression": f"{done}*{call}"}) for call in range(calls)))

    def _reply(self, **said: Any) -> Reply:
        return Reply(
            **said,
            first_delay_s=self.first_token_s,
            delay_s_per_chunk=self.each_token_s,
            chunk_chars=self.token_chars,
        )


def question(turns: int, calls: int, name: str) -> str:
    """What makes the model ask for `calls` tool calls in each of `turns` turns, and then answer."""
    return f"turns {turns} calls {calls} as {name}"


class TimedModel(ScriptedModel):
    """A scripted model whose replies are timed where they leave it, by the question that they belong to."""

    def __init__(self, speech: Speech | None = None) -> None:
        super().__init__(default=speech or Speech())
        self.request_bytes: dict[str, int] = {}  # of the last request, which holds the whole conversation
        self._replies: defaultdict[str, list[Span]] = defaultdict(list)

    def replies_to(self, question: str, expected: int) -> list[Span]:
        """The replies that a question took, once it is answered.

        Raises:
            RuntimeError: there are more or fewer of them, so that something else was measured than was meant.
        """
        deadline = time.monotonic() + _LATE_S
        while len(self._replies[question]) < expected and time.monotonic() < deadline:
            time.sleep(0.001)  # whoever has read the last word may be ahead of who sent it
        if len(found := self._replies[question]) != expected:
            raise RuntimeError(f"{question!r} took {len(found)} replies of the model in place of {expected}")
        return sorted(found)

    async def _respond(self, http: Request) -> Response:
        began = time.time()
        answer = await super()._respond(http)
        asked, _ = _last_question(self.requests[-1])
        self.request_bytes[asked] = int(http.headers["content-length"])
        self.requests[-1] = {}  # counted, for ids of calls, but not kept: a long run's requests are long
        return _Timed(answer, began, self._replies[asked])


class _Timed(Response):
    """A response that writes down when it was sent."""

    def __init__(self, answer: Response, began: float, spans: list[Span]) -> None:
        self._answer, self._began, self._spans = answer, began, spans

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._answer(scope, receive, send)
        self._spans.append(Span(self._began, time.time()))


def _last_question(request: Json) -> tuple[str, int]:
    """The last message of the user, and how many replies there were since."""
    roles = [message["role"] for message in request["messages"]]
    place = len(roles) - 1 - roles[::-1].index("user")
    return str(request["messages"][place]["content"]), roles[place:].count("assistant")
