"""Questions to people over the record's own conditions: asked, answered once, and closed with what asked them."""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stepagent import answering, asking, cancelling, delivering
from stepagent import think as thinking
from stepagent.announcing import view
from stepagent.answering import answer, list_interactions, read_interaction
from stepagent.answers import Answer
from stepagent.approvals import digest_of
from stepagent.asking import ask
from stepagent.call_failures import record_failure
from stepagent.clock import now
from stepagent.delivering import close_question
from stepagent.ending import finalize
from stepagent.errors import Conflict, Expired, InvalidAnswer, InvalidRequest, NotFound, RecordConflict
from stepagent.history import to_messages
from stepagent.interactions import Interaction
from stepagent.messages import AssistantMessage
from stepagent.runs import (
    Call,
    CallAddress,
    CallResult,
    CallStatus,
    Decision,
    InteractionId,
    Outcome,
    Principal,
    Run,
    RunId,
    RunStatus,
    StopReason,
    TurnRecord,
)
from stepagent.store import questions as store
from stepagent.store.calls import claim_call, load_call, store_result
from stepagent.store.conversation import load_history
from stepagent.store.journal import Event, read_events
from stepagent.store.runs import close_run, require_run
from stepagent.think import think
from stepagent.tools.execution import refusal_of
from stepagent.usage import Usage
from tests.builders import NOON, OWNER, RUN_ID, a_call, a_run, a_tool
from tests.recorded import begin
from tests.tables import empty_tables, tables_in_memory

CHILD_ID = RunId("run_0child_1")
ASK = a_tool("ask", kind="interactive", target="", parameters={"type": "object"})
SEND = a_tool("send", approval="always", bound={"count": 3}, approval_timeout_s=60, timeout_s=10)
NOTHING = {"kind": "none"}


class Loop:
    """States that wait, each with its token. Stands for `executions.resume_execution`."""

    def __init__(self) -> None:
        self.waiting: set[str] = set()
        self.sent: list[tuple[str, Mapping[str, Any]]] = []
        self.before_sending: Callable[[], None] = lambda: None

    def resume(self, token: str, next_kind: Mapping[str, Any] = NOTHING) -> bool:
        before, self.before_sending = self.before_sending, lambda: None
        before()
        self.sent.append((token, next_kind))
        alive = token in self.waiting
        self.waiting.discard(token)
        return alive


@pytest.fixture(scope="module", autouse=True)
def _tables() -> Iterator[None]:
    with tables_in_memory():
        yield


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Loop:
    """A loop, and nothing in the record."""
    empty_tables()
    waiting = Loop()
    for module in (delivering, asking):
        monkeypatch.setattr(module, "resume_execution", waiting.resume)
    monkeypatch.setattr(delivering, "ensure_execution", lambda run: run)  # it has lost none
    return waiting


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Makes it so many seconds later."""

    def later(seconds: float) -> None:
        moment: datetime = now() + timedelta(seconds=seconds)
        for module in (answering, delivering, store):
            monkeypatch.setattr(module, "now", lambda: moment)

    return later


def begun(*calls: Call, run_id: RunId = RUN_ID, **changes: Any) -> Run:
    """A run whose first turn made these calls."""
    return begin(a_run(ASK, SEND, a_tool(), run_id=run_id, created_at=now(), **changes), *calls)


def a_question(position: int = 0, **arguments: Any) -> Call:
    return a_call(position, name="ask", kind="interactive", timeout_s=60, arguments={"question": "Which?", **arguments})


def an_approval(position: int = 0, **changes: Any) -> Call:
    values = {"name": "send", "bound": {"count": 3}, "needs_approval": True, **changes}
    return a_call(position, **values)


def asked(loop: Loop, call: Call, run_id: RunId = RUN_ID, token: str = "") -> InteractionId:
    """Enters the AskPerson state for a call; its question."""
    token = token or f"token-{run_id}-{call.call_id}"
    loop.waiting.add(token)
    ask(run_id, call.call_id, token)
    question = load_call(require_run(run_id).key, call.key).question
    assert question
    return question


def standing(call: Call, run_id: RunId = RUN_ID) -> Call:
    return load_call(require_run(run_id).key, call.key).call


def result_of(call: Call, run_id: RunId = RUN_ID) -> CallResult:
    found = standing(call, run_id).result
    assert found
    return found


def events(run_id: RunId = RUN_ID) -> list[Event]:
    return [event for event in read_events(run_id, 0) if event.type.startswith(("interaction", "tool"))]


def types(run_id: RunId = RUN_ID) -> list[str]:
    return [event.type for event in events(run_id)]


def shown_to_owner(question: InteractionId) -> dict[str, Any]:
    return view(read_interaction(question, OWNER))


def statuses(question: InteractionId) -> list[str]:
    return [change.status for change in read_interaction(question, OWNER).history]


# ---- asked


def test_run_and_owner_know_of_a_question_when_it_is_asked(loop: Loop) -> None:
    begun(call := a_question())
    question = asked(loop, call)
    assert require_run(RUN_ID).pending == (question,)
    assert require_run(RUN_ID).status is RunStatus.WAITING
    assert [each.interaction_id for each in list_interactions(OWNER)] == [question]
    assert standing(call).status is CallStatus.STARTED


def test_event_has_all_that_an_answer_needs_when_a_question_is_asked(loop: Loop) -> None:
    begun(call := a_question(options=["x", "y"]))
    question = asked(loop, call)
    [event] = events()
    assert event.data["interaction_id"] == question
    assert event.data["options"] == [{"key": "x", "value": "x"}, {"key": "y", "value": "y"}]
    assert (event.data["type"], event.data["text"]) == ("choice", "Which?\n- x\n- y")


def test_task_token_is_in_no_event_and_no_view(loop: Loop) -> None:
    begun(call := a_question())
    question = asked(loop, call, token="secret-token")
    shown = f"{read_events(RUN_ID, 0)}{read_interaction(question, OWNER)!r}{list_interactions(OWNER)}"
    assert "secret-token" not in shown


def test_ids_of_questions_are_random_and_long(loop: Loop) -> None:
    begun(first := a_question(), second := a_question(1))
    ids = {asked(loop, first), asked(loop, second)}
    assert [len(id_) for id_ in ids] == [22, 22]  # 16 bytes each


def test_owner_knows_of_questions_in_the_order_in_which_they_were_asked(loop: Loop) -> None:
    begun(*(calls := [a_question(position) for position in (2, 0, 1)]))
    questions = [asked(loop, call) for call in calls]
    assert [each.interaction_id for each in list_interactions(OWNER)] == questions


def test_run_knows_of_questions_in_the_order_of_their_calls_whichever_was_asked_first(loop: Loop) -> None:
    begun(*(calls := [a_question(position) for position in (10, 0, 2)]))
    last, first, second = [asked(loop, call) for call in calls]
    assert require_run(RUN_ID).pending == (first, second, last)


def test_model_is_told_and_the_loop_goes_on_when_what_it_asks_cannot_be_shown(loop: Loop) -> None:
    begun(call := a_question(options=[None]))
    loop.waiting.add("token")
    ask(RUN_ID, call.call_id, "token")
    assert result_of(call).is_error
    assert "options must be a list" in result_of(call).text
    assert (loop.sent, require_run(RUN_ID).pending) == ([("token", NOTHING)], ())


def test_loop_goes_on_when_the_call_has_its_result(loop: Loop) -> None:
    run = begun(call := a_question())
    store_result(run.key, call.key, CallResult(text="before", finished_at=NOON))
    ask(RUN_ID, call.call_id, "token")
    assert (loop.sent, types()) == ([("token", NOTHING)], [])


def test_nothing_is_asked_when_the_run_has_ended(loop: Loop) -> None:
    run = begun(call := a_question())
    close_run(run, Outcome(RunStatus.CANCELLED, StopReason.CANCELLED))
    ask(RUN_ID, call.call_id, "token")
    assert (loop.sent, list_interactions(OWNER)) == ([("token", NOTHING)], [])


def test_nothing_is_asked_when_the_run_at_the_top_has_ended(loop: Loop) -> None:
    top = begun(above := a_call())
    child_of(above, call := a_question())
    close_run(top, Outcome(RunStatus.CANCELLED, StopReason.CANCELLED))
    with pytest.raises(RecordConflict):
        ask(CHILD_ID, call.call_id, "token")
    assert list_interactions(OWNER) == []


def test_call_asks_nothing_when_its_tool_began(loop: Loop) -> None:
    run = begun(call := a_question())
    claim_call(run.key, call.key)
    with pytest.raises(RecordConflict):
        ask(RUN_ID, call.call_id, "token")


def test_answer_goes_to_every_token_when_the_state_was_entered_anew(loop: Loop) -> None:
    begun(call := a_question())
    question = asked(loop, call, token="old")
    assert asked(loop, call, token="new") == question
    answer(question, OWNER, "blue")
    assert sorted(loop.sent) == [("new", NOTHING), ("old", NOTHING)]


def test_question_is_told_again_when_the_state_was_entered_anew(loop: Loop) -> None:
    begun(call := a_question())
    asked(loop, call)
    asked(loop, call)
    assert types() == ["interaction.required", "interaction.required"]


@pytest.mark.parametrize("call", [a_question(), an_approval()])
def test_one_question_is_asked_when_two_requests_enter_the_state_at_once(
    loop: Loop, monkeypatch: pytest.MonkeyPatch, call: Call
) -> None:
    begun(call)
    store_question = store.ask_question

    def after_the_other(interaction: Interaction, task_token: str) -> None:
        monkeypatch.setattr(asking, "ask_question", store_question)
        asked(loop, call, token="first")
        store_question(interaction, task_token)

    monkeypatch.setattr(asking, "ask_question", after_the_other)
    question = asked(loop, call, token="second")
    assert [each.interaction_id for each in list_interactions(OWNER)] == [question]
    assert require_run(RUN_ID).pending == (question,)


def test_followers_are_told_that_an_answer_came_too_late(loop: Loop, at: Callable[[float], None]) -> None:
    begun(call := a_question())
    question = asked(loop, call)
    loop.waiting.clear()
    at(58)
    with pytest.raises(Expired):
        answer(question, OWNER, "blue")
    assert [event.data.get("status", event.data.get("is_error")) for event in events()[-2:]] == ["expired", True]


def test_arguments_are_left_out_of_an_event_when_they_are_long(loop: Loop) -> None:
    begun(call := an_approval(arguments={"q": "x" * 30_000}))
    question = asked(loop, call)
    assert events()[0].data["arguments"] is None
    assert len(shown_to_owner(question)["arguments"]["q"]) == 30_000


# ---- answered


def test_question_has_waited_no_time_when_the_clock_of_who_asked_is_ahead(
    loop: Loop, at: Callable[[float], None]
) -> None:
    begun(call := a_question())
    at(30)
    question = asked(loop, call)
    at(0)
    answer(question, OWNER, "blue")
    assert result_of(call).waited_s == 0


def test_answer_is_the_result_of_the_call_that_asked(loop: Loop, at: Callable[[float], None]) -> None:
    begun(call := a_question())
    question = asked(loop, call)
    at(42)
    answered = answer(question, OWNER, " blue ")
    assert (answered.answer, answered.status) == ("blue", "answered")
    assert (result_of(call).text, result_of(call).is_error, result_of(call).waited_s) == ("blue", False, 42)
    assert loop.sent == [(f"token-{RUN_ID}-{call.call_id}", NOTHING)]


def test_nobody_waits_any_more_when_a_question_is_answered(loop: Loop) -> None:
    begun(call := a_question())
    question = asked(loop, call)
    answer(question, OWNER, "blue")
    assert (require_run(RUN_ID).pending, list_interactions(OWNER)) == ((), [])
    assert require_run(RUN_ID).status is RunStatus.RUNNING
    assert statuses(question) == ["pending", "answered"]


def test_followers_are_told_of_the_answer_and_the_result(loop: Loop) -> None:
    begun(call := a_question())
    question = asked(loop, call)
    answer(question, OWNER, "blue")
    _, resolved, completed = events()
    assert (resolved.data["interaction_id"], resolved.data["status"]) == (question, "answered")
    assert (completed.data["id"], completed.data["text"], completed.data["is_error"]) == (call.call_id, "blue", False)


def test_same_answer_again_is_the_same_success_and_does_nothing(loop: Loop) -> None:
    begun(call := a_question(options=["x", "y"]))
    question = asked(loop, call)
    first, second = answer(question, OWNER, "y"), answer(question, OWNER, " Y ")
    assert first == second
    assert len(loop.sent) == 1
    assert types().count("interaction.resolved") == 1


def test_another_answer_is_a_conflict(loop: Loop) -> None:
    begun(call := a_question())
    question = asked(loop, call)
    answer(question, OWNER, "blue")
    with pytest.raises(Conflict):
        answer(question, OWNER, "red")
    assert result_of(call).text == "blue"


def test_question_stays_open_when_an_answer_does_not_fit(loop: Loop) -> None:
    begun(call := a_question(options=["x", "y"]))
    question = asked(loop, call)
    with pytest.raises(InvalidAnswer):
        answer(question, OWNER, "z")
    assert (loop.sent, require_run(RUN_ID).pending) == ([], (question,))
    assert answer(question, OWNER, "y").answer == "y"


@pytest.mark.parametrize("interaction_id", ["", "nope", "x" * 5_000, "a#b"])
def test_unknown_question_is_not_found(loop: Loop, interaction_id: str) -> None:
    with pytest.raises(NotFound):
        answer(interaction_id, OWNER, "blue")


def test_question_of_somebody_else_is_not_found(loop: Loop) -> None:
    begun(call := a_question())
    question = asked(loop, call)
    with pytest.raises(NotFound):
        answer(question, Principal("bob"), "x")
    with pytest.raises(NotFound):
        read_interaction(question, Principal("bob"))
    assert list_interactions(Principal("bob")) == []


def test_answer_has_expired_when_it_comes_after_the_time(loop: Loop, at: Callable[[float], None]) -> None:
    begun(call := a_question())
    question = asked(loop, call)
    at(61)
    with pytest.raises(Expired):
        answer(question, OWNER, "blue")
    assert (loop.sent, list_interactions(OWNER)) == ([], [])


def test_long_answer_is_cut_for_the_model_as_any_result_is(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[bytes] = []
    monkeypatch.setattr("stepagent.tools.execution.keep_result", lambda run, call, text_bytes: kept.append(text_bytes))
    begun(call := a_question())
    answer(asked(loop, call), OWNER, "x" * 20_000)
    assert (len(kept[0]), result_of(call).kept_bytes) == (20_000, 20_000)
    assert len(result_of(call).text.encode()) <= 16_384


def test_only_what_waits_can_be_listed(loop: Loop) -> None:
    with pytest.raises(InvalidRequest) as refused:
        list_interactions(OWNER, "answered")
    assert refused.value.param == "status"


def test_reading_and_listing_change_nothing(loop: Loop) -> None:
    begun(call := a_question())
    question = asked(loop, call)
    for _ in range(3):
        read_interaction(question, OWNER)
        list_interactions(OWNER)
    assert (loop.sent, statuses(question), types()) == ([], ["pending"], ["interaction.required"])


# ---- answered in bad moments


@pytest.mark.parametrize("call", [a_question(), an_approval()])
def test_answer_stands_when_the_function_died_that_asked_and_its_state_is_entered_again(loop: Loop, call: Call) -> None:
    begun(call)
    question = asked(loop, call, token="first")
    loop.waiting.clear()
    assert answer(question, OWNER, "approve").status == "answered"
    ask(RUN_ID, call.call_id, "first")  # the request that died may arrive late
    assert read_interaction(question, OWNER).status == "answered"
    asked(loop, call, token="second")
    assert (loop.waiting, require_run(RUN_ID).pending) == (set(), ())


def test_answer_is_taken_back_when_the_loop_waits_no_longer(loop: Loop, at: Callable[[float], None]) -> None:
    begun(call := a_question())
    question = asked(loop, call)
    loop.waiting.clear()
    at(58)
    for _ in range(2):
        with pytest.raises(Expired):
            answer(question, OWNER, "blue")
    assert len(loop.sent) == 1
    assert (result_of(call).text, result_of(call).is_error) == ("Nobody answered in time.", True)
    assert (require_run(RUN_ID).pending, list_interactions(OWNER)) == ((), [])
    assert statuses(question) == ["pending", "answered", "expired"]


class Died(BaseException):
    """What ends a process in the middle, whatever it would catch."""


def dies() -> None:
    raise Died


def test_answer_is_brought_to_the_loop_when_its_giver_died_before_that(loop: Loop) -> None:
    begun(call := a_question())
    question = asked(loop, call)
    loop.before_sending = dies
    with pytest.raises(Died):
        answer(question, OWNER, "blue")
    assert loop.waiting
    assert answer(question, OWNER, "blue").answer == "blue"
    assert (loop.waiting, require_run(RUN_ID).pending, result_of(call).text) == (set(), (), "blue")


def test_first_answer_is_brought_to_the_loop_by_whoever_comes_next(loop: Loop) -> None:
    begun(call := a_question())
    question = asked(loop, call)
    loop.before_sending = dies
    with pytest.raises(Died):
        answer(question, OWNER, "blue")
    with pytest.raises(Conflict):
        answer(question, OWNER, "red")
    assert (loop.waiting, result_of(call).text) == (set(), "blue")


def test_answer_stands_when_the_same_one_was_quicker_with_the_token(loop: Loop) -> None:
    begun(call := a_question())
    question = asked(loop, call)
    twins: list[Interaction] = []
    loop.before_sending = lambda: twins.append(answer(question, OWNER, "blue"))
    twins.append(answer(question, OWNER, "blue"))
    assert twins[0] == twins[1]
    assert (len(loop.sent), result_of(call).text, statuses(question)) == (2, "blue", ["pending", "answered"])
    assert types() == ["interaction.required", "interaction.resolved", "tool.completed"]


def test_answer_stands_when_the_same_one_has_used_the_token_and_not_yet_noted_it(loop: Loop) -> None:
    begun(call := a_question())
    question = asked(loop, call)

    def twin_sends() -> None:
        store.begin_delivery(question)
        loop.waiting.clear()

    loop.before_sending = twin_sends
    assert answer(question, OWNER, "blue").answer == "blue"
    assert (result_of(call).text, statuses(question)) == ("blue", ["pending", "answered"])


def test_answer_stands_when_its_giver_died_behind_the_loop(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    begun(call := a_question())
    question = asked(loop, call)
    with monkeypatch.context() as patch:
        patch.setattr(store, "settle_question", lambda interaction: dies())
        with pytest.raises(Died):
            answer(question, OWNER, "blue")
    assert answer(question, OWNER, "blue").answer == "blue"
    close_question(question)  # as the next turn does with what it finds open
    assert (require_run(RUN_ID).pending, list_interactions(OWNER), result_of(call).text) == ((), [], "blue")


def test_loop_has_the_answer_when_its_state_is_entered_anew_behind_it(loop: Loop) -> None:
    begun(call := a_question())
    question = asked(loop, call, token="old")
    loop.before_sending = dies
    with pytest.raises(Died):
        answer(question, OWNER, "blue")
    asked(loop, call, token="new")
    assert ("new" in loop.waiting, require_run(RUN_ID).pending, result_of(call).text) == (False, (), "blue")


def test_loop_goes_on_when_its_state_is_entered_anew_behind_a_settled_question(loop: Loop) -> None:
    begun(call := a_question())
    answer(asked(loop, call, token="old"), OWNER, "blue")
    asked(loop, call, token="new")
    assert loop.waiting == set()


def test_question_cannot_be_answered_when_its_call_was_ended(loop: Loop) -> None:
    run = begun(call := a_question())
    question = asked(loop, call)
    store_result(run.key, call.key, CallResult(text="cancelled", finished_at=NOON))
    with pytest.raises(Expired):
        answer(question, OWNER, "blue")
    assert (loop.sent, result_of(call).text) == ([], "cancelled")


# ---- closed


def test_question_cannot_be_answered_when_it_was_closed(loop: Loop) -> None:
    begun(call := a_question())
    question = asked(loop, call)
    assert [close_question(question), close_question(question)] == [True, False]
    with pytest.raises(Expired, match="was cancelled"):
        answer(question, OWNER, "blue")
    assert (require_run(RUN_ID).pending, list_interactions(OWNER)) == ((), [])
    assert [event.data.get("status") for event in events()] == ["pending", "cancelled"]


def test_answered_question_is_not_closed(loop: Loop) -> None:
    begun(call := a_question())
    question = asked(loop, call)
    answer(question, OWNER, "blue")
    assert not close_question(question)
    assert statuses(question) == ["pending", "answered"]


def test_closing_what_was_never_asked_does_nothing(loop: Loop) -> None:
    assert not close_question(InteractionId("nope"))


# ---- approvals


def test_person_is_shown_what_will_run_and_what_the_author_set(loop: Loop) -> None:
    begun(call := an_approval())
    shown = shown_to_owner(asked(loop, call))
    assert (shown["type"], shown["tool"], shown["arguments"], shown["bound"]) == (
        "approval",
        "send",
        {"q": "x"},
        {"count": 3},
    )
    assert shown["digest"] == digest_of({"q": "x", "count": 3})


def test_call_can_be_claimed_by_its_tool_alone_while_a_person_is_asked(loop: Loop) -> None:
    begun(call := an_approval())
    asked(loop, call)
    assert (standing(call).status, refusal_of(standing(call))) == (
        CallStatus.PENDING,
        "Not run: nobody approved of a call with these arguments.",
    )


def test_call_goes_on_to_its_tool_when_it_is_approved(loop: Loop) -> None:
    run = begun(call := an_approval())
    answer(asked(loop, call), OWNER, "approve")
    [(_, next_kind)] = loop.sent
    assert next_kind == {"kind": "tool", "target": "tool_send", "timeout_s": 15}
    claimed = claim_call(run.key, call.key)
    assert (claimed.ours, refusal_of(claimed.call), claimed.call.all_arguments) == (True, "", {"q": "x", "count": 3})
    assert types() == ["interaction.required", "interaction.resolved"]


def test_call_runs_with_the_persons_arguments_when_it_was_edited(loop: Loop) -> None:
    run = begun(call := an_approval())
    answer(asked(loop, call), OWNER, {"decision": "edit", "arguments": {"q": "y"}})
    claimed = claim_call(run.key, call.key)
    assert (refusal_of(claimed.call), claimed.call.all_arguments) == ("", {"q": "y", "count": 3})


def test_call_is_not_run_when_its_arguments_change_after_the_approval(loop: Loop) -> None:
    run = begun(call := an_approval())
    answer(asked(loop, call), OWNER, "approve")
    claimed = claim_call(run.key, call.key).call
    changed = claimed.model_copy(update={"arguments": {"q": "other"}})
    assert refusal_of(changed).startswith("Not run")


def test_edit_is_refused_when_it_sets_what_the_author_set(loop: Loop) -> None:
    begun(call := an_approval())
    question = asked(loop, call)
    with pytest.raises(InvalidAnswer, match="set by the agent's author"):
        answer(question, OWNER, {"decision": "edit", "arguments": {"q": "x", "count": 4}})
    assert require_run(RUN_ID).pending == (question,)


def test_call_has_the_reason_as_its_result_when_it_is_rejected(loop: Loop) -> None:
    run = begun(call := an_approval())
    answer(asked(loop, call), OWNER, "reject: too late")
    assert (result_of(call).text, result_of(call).is_error) == (
        "Not run: a person rejected this call. The reason: too late",
        True,
    )
    assert loop.sent[0][1] == NOTHING
    assert not claim_call(run.key, call.key).ours


def test_second_decision_is_a_conflict_when_it_is_another(loop: Loop) -> None:
    begun(call := an_approval())
    question = asked(loop, call)
    answer(question, OWNER, "approve")
    with pytest.raises(Conflict):
        answer(question, OWNER, "reject")
    assert answer(question, OWNER, {"decision": "approve"}).answer == {"decision": "approve"}
    assert standing(call).approved


@pytest.mark.parametrize("given", ["approve", "reject: no", {"decision": "edit", "arguments": {"q": "y"}}])
def test_decision_that_comes_too_late_lets_nothing_run(loop: Loop, at: Callable[[float], None], given: Answer) -> None:
    run = begun(call := an_approval())
    question = asked(loop, call)
    loop.waiting.clear()
    at(58)
    with pytest.raises(Expired):
        answer(question, OWNER, given)
    found = standing(call)
    assert (result_of(call).text, found.approved) == ("Nobody approved in time, so it was not run.", "")
    assert (found.arguments, claim_call(run.key, call.key).ours) == (call.arguments, False)


def test_person_has_as_long_for_an_approval_as_its_row_says(loop: Loop) -> None:
    begun(call := an_approval())
    found = read_interaction(asked(loop, call), OWNER)
    assert found.expires_at - found.created_at == timedelta(seconds=60)


# ---- calls that failed outside their function


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (a_question(), "Nobody answered in time."),
        (an_approval(), "Nobody approved in time, so it was not run."),
    ],
)
def test_call_says_so_when_nobody_answered_in_time(
    loop: Loop, at: Callable[[float], None], call: Call, text: str
) -> None:
    begun(call)
    question = asked(loop, call)
    at(60)
    for _ in range(2):
        record_failure(RUN_ID, call.call_id, "States.Timeout")
    assert (result_of(call).text, result_of(call).is_error, result_of(call).waited_s) == (text, True, 60)
    assert (statuses(question), require_run(RUN_ID).pending) == (["pending", "expired"], ())
    assert types() == ["interaction.required", "interaction.resolved", "tool.completed"]
    with pytest.raises(Expired):
        answer(question, OWNER, "approve")


def test_answer_is_the_result_when_it_came_before_the_time_out_was_noted(loop: Loop) -> None:
    begun(call := a_question())
    question = asked(loop, call)
    loop.before_sending = dies
    with pytest.raises(Died):
        answer(question, OWNER, "blue")
    record_failure(RUN_ID, call.call_id, "States.Timeout")
    assert (result_of(call).text, require_run(RUN_ID).pending) == ("blue", ())
    assert answer(question, OWNER, "blue").answer == "blue"


def test_answer_is_the_result_when_it_comes_while_the_time_out_is_noted(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun(call := a_question())
    question = asked(loop, call)
    close = store.close_question

    def after_the_answer(closing: InteractionId, *status: Any) -> bool:
        monkeypatch.setattr(store, "close_question", close)
        answer(question, OWNER, "blue")
        return close(closing, *status)

    monkeypatch.setattr(store, "close_question", after_the_answer)
    record_failure(RUN_ID, call.call_id, "States.Timeout")
    assert (result_of(call).text, statuses(question)) == ("blue", ["pending", "answered"])
    assert types() == ["interaction.required", "interaction.resolved", "tool.completed"]


def test_approved_call_is_never_run_when_the_approval_did_not_reach_the_loop_in_time(loop: Loop) -> None:
    run = begun(call := an_approval())
    question = asked(loop, call)
    loop.before_sending = dies
    with pytest.raises(Died):
        answer(question, OWNER, "approve")
    record_failure(RUN_ID, call.call_id, "States.Timeout")
    assert result_of(call).text == "Nobody approved in time, so it was not run."
    assert not claim_call(run.key, call.key).ours
    with pytest.raises(Expired):
        answer(question, OWNER, "approve")


@pytest.mark.parametrize(
    ("error", "words"),
    [("States.Timeout", "Its effects are unknown"), ("Lambda.ResourceNotFoundException", "does not exist")],
)
def test_failure_is_the_tools_when_it_failed_behind_its_approval(loop: Loop, error: str, words: str) -> None:
    run = begun(call := an_approval())
    question = asked(loop, call)
    answer(question, OWNER, "approve")
    claim_call(run.key, call.key)
    record_failure(RUN_ID, call.call_id, error)
    assert words in result_of(call).text
    assert statuses(question) == ["pending", "answered"]


def test_failure_is_the_tools_when_it_came_before_the_approval_was_noted_as_taken(loop: Loop) -> None:
    begun(call := an_approval())
    question = asked(loop, call)

    def fails_at_once() -> None:
        record_failure(RUN_ID, call.call_id, "Lambda.ResourceNotFoundException")

    loop.before_sending = fails_at_once
    answer(question, OWNER, "approve")
    assert "does not exist" in result_of(call).text
    assert statuses(question) == ["pending", "answered"]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (a_question(), "Nobody could be asked (RecordConflict)."),
        (an_approval(), "Nobody could be asked to approve it (RecordConflict), so it was not run."),
        (a_call(), "The tool failed (RecordConflict)."),
    ],
)
def test_call_gets_a_result_when_its_function_crashed_before_it_asked(loop: Loop, call: Call, words: str) -> None:
    run = begun(call)
    record_failure(RUN_ID, call.call_id, "RecordConflict")
    assert (result_of(call).text, result_of(call).is_error) == (words, True)
    assert not claim_call(run.key, call.key).ours


@pytest.mark.parametrize(
    ("call", "text"),
    [(a_question(), "Nobody could be asked."), (an_approval(), "Nobody could be asked, so it was not run.")],
)
def test_question_is_closed_when_its_function_crashed_behind_it(loop: Loop, call: Call, text: str) -> None:
    begun(call)
    question = asked(loop, call)
    record_failure(RUN_ID, call.call_id, "Lambda.Unknown")
    assert (result_of(call).text, statuses(question)) == (text, ["pending", "cancelled"])
    assert require_run(RUN_ID).pending == ()


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("States.Timeout", "did not answer in time"),
        ("Sandbox.Timedout", "did not answer in time"),
        ("Lambda.ResourceNotFoundException", "does not exist"),
        ("Lambda.Unknown", "Lambda.Unknown"),
    ],
)
def test_call_gets_a_result_when_its_function_could_not_give_one(loop: Loop, error: str, words: str) -> None:
    run = begun(call := a_call())
    claim_call(run.key, call.key)
    record_failure(RUN_ID, call.call_id, error)
    assert words in result_of(call).text
    assert result_of(call).is_error


@pytest.mark.parametrize("error", ["Runtime.ExitError", "Runtime.Unknown", "Lambda.Unknown", "RecordUnavailable"])
@pytest.mark.parametrize(("begins", "idempotent"), [(True, False), (True, True), (False, False)])
def test_failure_of_a_call_says_that_its_effects_are_unknown_when_it_began_and_may_not_be_repeated(
    loop: Loop, error: str, begins: bool, idempotent: bool
) -> None:
    run = begun(call := a_call(idempotent=idempotent))
    if begins:
        claim_call(run.key, call.key)
    record_failure(RUN_ID, call.call_id, error)
    assert result_of(call).text.startswith(f"The tool failed ({error}).")
    assert ("effects are unknown" in result_of(call).text) is (begins and not idempotent)


def test_earlier_result_stands_when_a_failure_is_recorded_after_it(loop: Loop) -> None:
    run = begun(call := a_call())
    store_result(run.key, call.key, CallResult(text="before", finished_at=NOON))
    record_failure(RUN_ID, call.call_id, "States.Timeout")
    assert (result_of(call).text, types()) == ("before", [])


# ---- agents that were called by other agents


def child_of(above: Call, *calls: Call) -> Run:
    """The run of an agent that this call of the first run asked."""
    place = CallAddress(run_id=RUN_ID, call_id=above.call_id)
    return begun(*calls, run_id=CHILD_ID, parent=place, top=place, depth=1)


def test_question_of_an_agent_waits_in_its_own_run_and_in_the_one_at_the_top(loop: Loop) -> None:
    begun(above := a_call())
    child_of(above, call := a_question())
    question = asked(loop, call, CHILD_ID)
    assert [require_run(run_id).pending for run_id in (RUN_ID, CHILD_ID)] == [(question,), (question,)]
    assert [(event.data["run_id"], event.data["call_id"]) for run in (RUN_ID, CHILD_ID) for event in events(run)] == [
        (RUN_ID, above.call_id),
        (CHILD_ID, call.call_id),
    ]
    assert [each.interaction_id for each in list_interactions(OWNER)] == [question]


@pytest.mark.parametrize("end", ["answered", "expired", "cancelled"])
def test_neither_run_waits_when_the_question_of_an_agent_has_ended(loop: Loop, end: str) -> None:
    begun(above := a_call())
    child_of(above, call := a_question())
    question = asked(loop, call, CHILD_ID)
    match end:
        case "answered":
            answer(question, OWNER, "blue")
        case "expired":
            record_failure(CHILD_ID, call.call_id, "States.Timeout")
        case _:
            close_question(question)
    assert [require_run(run_id).pending for run_id in (RUN_ID, CHILD_ID)] == [(), ()]
    assert [events(run_id)[1].data["status"] for run_id in (RUN_ID, CHILD_ID)] == [end, end]
    assert "tool.completed" not in types(RUN_ID)
    assert list_interactions(OWNER) == []


def test_questions_of_an_agent_are_known_among_those_of_the_run_at_the_top(loop: Loop) -> None:
    begun(above := a_call(), beside := a_question(1))
    child_of(above, first := a_question(5), second := a_question(2))
    last_of_all = asked(loop, beside)
    questions = [asked(loop, first, CHILD_ID), asked(loop, second, CHILD_ID)]
    assert require_run(RUN_ID).pending == (*questions, last_of_all)


# ---- any order


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


# ---- what the loop does with it


def test_model_reads_that_a_person_changed_the_arguments_and_to_what(loop: Loop) -> None:
    run = begun(call := an_approval())
    answer(asked(loop, call), OWNER, {"decision": "edit", "arguments": {"q": "y"}})
    store_result(run.key, call.key, CallResult(text="sent", finished_at=NOON))
    *_, read = to_messages(load_history(run.key.session))
    assert read.text == 'A person changed the arguments of this call before it ran. They were: {"q": "y"}\n\nsent'


def test_model_reads_no_note_when_a_call_was_approved_as_it_was(loop: Loop) -> None:
    run = begun(call := an_approval())
    answer(asked(loop, call), OWNER, "approve")
    store_result(run.key, call.key, CallResult(text="sent", finished_at=NOON))
    *_, read = to_messages(load_history(run.key.session))
    assert read.text == "sent"


def test_time_for_an_approval_counts_as_waiting(loop: Loop, at: Callable[[float], None]) -> None:
    run = begun(call := an_approval())
    question = asked(loop, call)
    at(42)
    answer(question, OWNER, "approve")
    store_result(run.key, call.key, CallResult(text="sent", finished_at=NOON))
    assert result_of(call).waited_s == 42


def test_next_turn_notes_an_answer_whose_giver_died_behind_the_loop(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun(call := a_question())
    question = asked(loop, call)
    with monkeypatch.context() as patch:
        patch.setattr(store, "settle_question", lambda interaction: dies())
        with pytest.raises(Died):
            answer(question, OWNER, "blue")
    outcome = Outcome(RunStatus.COMPLETED, StopReason.ANSWERED, "Blue.")
    decision = Decision(run_id=RUN_ID, turn=2, next="done")
    record = TurnRecord(decision, AssistantMessage(text="Blue."), (), Usage(), outcome)
    monkeypatch.setattr(thinking, "run_turn", lambda run, turn, entries, ask: record)
    think(RUN_ID, 2)
    assert (require_run(RUN_ID).pending, list_interactions(OWNER)) == ((), [])


@pytest.mark.parametrize("end", ["cancelled", "finalized"])
def test_neither_run_waits_when_the_run_of_an_agent_has_ended(
    loop: Loop, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    monkeypatch.setattr(cancelling, "stop_execution", lambda run_id: None)
    begun(above := a_call())
    child_of(above, call := a_question())
    question = asked(loop, call, CHILD_ID)
    if end == "cancelled":
        cancelling.cancel_run(CHILD_ID)
    else:
        finalize(CHILD_ID, "ABORTED")
    assert [require_run(run_id).pending for run_id in (RUN_ID, CHILD_ID)] == [(), ()]
    assert types(RUN_ID) == ["interaction.required", "interaction.resolved"]
    with pytest.raises(Expired):
        answer(question, OWNER, "blue")


def test_effects_are_unknown_when_an_approved_call_is_cancelled_while_it_runs(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cancelling, "stop_execution", lambda run_id: None)
    run = begun(call := an_approval())
    answer(asked(loop, call), OWNER, "approve")
    claim_call(run.key, call.key)
    cancelling.cancel_run(RUN_ID)
    assert "Its effects are unknown" in result_of(call).text
