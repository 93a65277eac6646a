"""Calls that a person must approve of: what runs is what was approved, and nothing else."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from stepagent import cancelling
from stepagent.answering import answer, read_interaction
from stepagent.answers import Answer
from stepagent.approvals import digest_of
from stepagent.errors import Conflict, Expired, InvalidAnswer
from stepagent.history import to_messages
from stepagent.runs import CallResult, CallStatus
from stepagent.store.calls import claim_call, store_result
from stepagent.store.conversation import load_history
from stepagent.store.runs import require_run
from stepagent.tools.execution import refusal_of
from tests.builders import NOON, OWNER, RUN_ID
from tests.questions_in_record import (
    NOTHING,
    Loop,
    an_approval,
    asked,
    begun,
    result_of,
    shown_to_owner,
    standing,
    types,
)


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
def test_decision_that_comes_too_late_lets_nothing_run(loop: Loop, given: Answer) -> None:
    run = begun(call := an_approval())
    question = asked(loop, call)
    loop.waiting.clear()
    with pytest.raises(Expired):
        answer(question, OWNER, given)
    found = standing(call)
    assert (result_of(call).text, found.approved) == ("Nobody approved in time, so it was not run.", "")
    assert (found.arguments, claim_call(run.key, call.key).ours) == (call.arguments, False)


def test_person_has_as_long_for_an_approval_as_its_row_says(loop: Loop) -> None:
    begun(call := an_approval())
    found = read_interaction(asked(loop, call), OWNER)
    assert found.expires_at - found.created_at == timedelta(seconds=60)


# ---- behind the approval


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


def test_effects_are_unknown_when_an_approved_call_is_cancelled_while_it_runs(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cancelling, "stop_execution", lambda run_id: None)
    run = begun(call := an_approval())
    answer(asked(loop, call), OWNER, "approve")
    claim_call(run.key, call.key)
    cancelling.cancel_run(RUN_ID)
    assert "Its effects are unknown" in result_of(call).text
