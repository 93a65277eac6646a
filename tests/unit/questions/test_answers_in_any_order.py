"""Answers and tools in whatever order they come: each call has one result, and nothing runs that was not approved."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stepagent.answering import answer, list_interactions
from stepagent.call_failures import record_failure
from stepagent.errors import Conflict
from stepagent.runs import CallResult
from stepagent.store.calls import claim_call, store_result
from stepagent.store.runs import require_run
from stepagent.tools.execution import refusal_of
from tests.builders import NOON, OWNER, RUN_ID, a_call
from tests.questions_in_record import (
    NOTHING,
    Died,
    Loop,
    a_question,
    an_approval,
    asked,
    begun,
    dies,
    events,
    standing,
)
from tests.tables import empty_tables

ACTIONS = st.lists(
    st.tuples(st.integers(0, 4), st.sampled_from(["x", "y", "again", "late", "run", "dies"])), max_size=25
)


@given(kinds=st.lists(st.sampled_from(["ask", "approve", "ordinary"]), min_size=1, max_size=5), actions=ACTIONS)
@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
def test_each_call_is_answered_once_in_whatever_order_people_and_tools_come(
    loop: Loop, kinds: list[str], actions: list[tuple[int, str]]
) -> None:
    empty_tables()
    turn = Turn(loop, kinds)
    for position, action in actions:
        turn.act(position % len(kinds), action)
    turn.finish()


class Turn:
    """One turn of calls that ask, must be approved, or are ordinary; and what people and tools do to them."""

    def __init__(self, loop: Loop, kinds: list[str]) -> None:
        made = {"ask": a_question, "approve": an_approval, "ordinary": a_call}
        self.loop, self.kinds = loop, kinds
        self.calls = [made[kind](position) for position, kind in enumerate(kinds)]
        self.first: dict[int, str] = {}
        self.results: dict[int, str] = {}
        self.ran: list[int] = []
        loop.waiting.clear()
        loop.sent.clear()
        self.run = begun(*self.calls)
        self.questions = {n: asked(loop, call) for n, call in enumerate(self.calls) if kinds[n] != "ordinary"}

    def act(self, n: int, action: str) -> None:
        match action:
            case "x" | "y" if n in self.questions:
                self._answer(n, self._said(n, action))
            case "again" if n in self.first:
                answered = answer(self.questions[n], OWNER, self.first[n])
                assert answered.status == "answered"
            case "dies" if n in self.questions and n not in self.first:
                self.loop.before_sending = dies
                said = self.first[n] = self._said(n, "x")
                with pytest.raises(Died):
                    answer(self.questions[n], OWNER, said)
            case "run":
                self._run(n)
            case "late" if n in self.first:  # the state that waited, or the tool behind it, has failed
                self.loop.waiting.discard(self._token(n))
                record_failure(RUN_ID, self.calls[n].call_id, "Lambda.Unknown")
        self._check()

    def finish(self) -> None:
        """Whatever is open is answered, and every tool runs that may."""
        for n in self.questions:
            self._answer(n, self.first.get(n, self._said(n, "x")))
        for n in range(len(self.calls)):
            self._run(n)
        self._check()
        assert all(standing(call).result for call in self.calls)
        assert len(self.ran) == len(set(self.ran))
        assert (require_run(RUN_ID).pending, list_interactions(OWNER), self.loop.waiting) == ((), [], set())
        completed = [event.data["id"] for event in events() if event.type == "tool.completed"]
        told = [event.data["interaction_id"] for event in events() if event.type == "interaction.resolved"]
        assert sorted(told) == sorted(self.questions.values())
        assert len(completed) == len(set(completed))

    def _said(self, n: int, action: str) -> str:
        return action if self.kinds[n] == "ask" else {"x": "approve", "y": "reject"}[action]

    def _answer(self, n: int, said: str) -> None:
        if self.first.setdefault(n, said) == said:
            answer(self.questions[n], OWNER, said)
        else:
            with pytest.raises(Conflict):
                answer(self.questions[n], OWNER, said)

    def _token(self, n: int) -> str:
        return f"token-{RUN_ID}-{self.calls[n].call_id}"

    def _run(self, n: int) -> None:
        """The tool of a call: it is invoked for ordinary calls, and for those that the loop was told to run."""
        told = any(sent == self._token(n) and kind != NOTHING for sent, kind in self.loop.sent)
        if self.kinds[n] != "ordinary" and not told:
            return
        claimed = claim_call(self.run.key, self.calls[n].key)
        if claimed.ours and not refusal_of(claimed.call):
            self.ran.append(n)
            store_result(self.run.key, self.calls[n].key, CallResult(text="ran", finished_at=NOON))

    def _check(self) -> None:
        """A result that is there never changes, and nothing runs that was not approved."""
        for n, call in enumerate(self.calls):
            found = standing(call)
            if found.result:
                assert self.results.setdefault(n, found.result.text) == found.result.text
            if self.kinds[n] == "approve" and n in self.ran:
                assert self.first[n] == "approve"
