"""Answers and ends that find dead tokens, or several: each reaches the state that waits, and nothing else."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import pytest

from stepagent import delegation, delivering, returning
from stepagent.answering import answer, read_interaction
from stepagent.api import beginning
from stepagent.api.content import ChatMessage
from stepagent.api.requests import ChatRequest
from stepagent.asking import ask
from stepagent.clock import now
from stepagent.delegation import execution_name, finish_workflow, start_workflow, sub_run_of
from stepagent.ending import CANCELLED, end_run, finalize
from stepagent.errors import Expired
from stepagent.executions import Ended, answer_each
from stepagent.interactions import Interaction
from stepagent.messages import UserMessage
from stepagent.returning import return_result
from stepagent.runs import InteractionId
from stepagent.store import questions as store
from stepagent.store.conversation import load_history
from stepagent.store.delegations import note_waiting
from stepagent.store.recent import RecentHistory
from stepagent.store.runs import create_run, require_run
from tests.builders import OWNER, RUN_ID, a_call, a_run, a_tool
from tests.recorded import begin
from tests.steps_in_record import ASK, DELEGATED, Service, asked, begun, install
from tests.tables import tables_in_memory

FLOW = a_tool("flow", kind="workflow", target="arn:aws:states:eu-west-1:123456789012:stateMachine:x")


@pytest.fixture(scope="module", autouse=True)
def _tables() -> Iterator[None]:
    with tables_in_memory():
        yield


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Service:
    return install(monkeypatch)


# ---- several tokens


@pytest.mark.parametrize("fails", [{"a"}, {"b"}, {"a", "b"}])
def test_every_token_is_answered_when_the_requests_for_others_fail(fails: set[str]) -> None:
    tried = []

    def send(token: str) -> bool:
        tried.append(token)
        if token in fails:
            raise OSError(token)
        return True

    assert answer_each(("a", "b", "c"), send)
    assert tried == ["a", "b", "c"]


def test_request_that_failed_is_told_when_no_state_took_the_answer() -> None:
    def send(token: str) -> bool:
        if token == "b":
            raise OSError(token)
        return False

    with pytest.raises(OSError, match="b"):
        answer_each(("a", "b", "c"), send)


def throttled_once(service: Service) -> Callable[..., bool]:
    """A service that does not take the first request, which is for a dead token."""
    failed: list[str] = []

    def resume(token: str, next_kind: Mapping[str, Any] = {}) -> bool:
        if not failed:
            failed.append(token)
            service.waiting.discard(token)
            raise RuntimeError("ThrottlingException")
        return service.resume(token, next_kind)

    return resume


def test_state_that_waits_for_a_person_goes_on_when_the_request_for_a_dead_token_fails(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun(service)
    question = asked(service, "first")
    asked(service, "second")
    monkeypatch.setattr(delivering, "resume_execution", throttled_once(service))
    assert answer(question, OWNER, "blue").status == "answered"
    assert (service.waiting, require_run(RUN_ID).pending) == (set(), ())


def test_state_that_waits_for_an_agent_goes_on_when_the_request_for_a_dead_token_fails(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = begun(service, DELEGATED)
    service.waiting.update({"first", "second"})
    for token in ("first", "second"):
        start_workflow(RUN_ID, DELEGATED.call_id, token)
    monkeypatch.setattr(returning, "resume_execution", throttled_once(service))
    finalize(sub_run_of(run.key, DELEGATED.key), "ABORTED")
    assert service.waiting == set()


@pytest.mark.parametrize("ends_at", ["before the note", "before its result is stored"])
def test_state_goes_on_that_was_entered_again_while_its_workflow_ended(
    service: Service, monkeypatch: pytest.MonkeyPatch, ends_at: str
) -> None:
    call = a_call(name="flow", kind="workflow", arguments={})
    run = begin(a_run(FLOW, created_at=now()), call)
    name, note, finish = execution_name(run, call), note_waiting, return_result
    monkeypatch.setattr(delegation, "start_workflow_execution", lambda *_: "")  # so it says for a while behind the end
    monkeypatch.setattr(delegation, "ended_execution", lambda arn: Ended('"done"', None))
    service.waiting.update({"first", "second"})
    start_workflow(RUN_ID, call.call_id, "first")

    def end_before_note(*given: Any) -> None:
        finish_workflow(name, "arn")
        note(*given)

    def note_before_result(*given: Any) -> None:
        monkeypatch.setattr(delegation, "return_result", finish)
        start_workflow(RUN_ID, call.call_id, "second")
        finish(*given)

    if ends_at == "before the note":
        monkeypatch.setattr(delegation, "note_waiting", end_before_note)
        start_workflow(RUN_ID, call.call_id, "second")
    else:
        monkeypatch.setattr(delegation, "return_result", note_before_result)
        finish_workflow(name, "arn")
    assert service.waiting == set()


# ---- an answer that waits until its state comes back


def chat(text: str) -> ChatRequest:
    return ChatRequest(model="a", messages=[ChatMessage(role="user", content=text)])


def two_questions(service: Service) -> tuple[InteractionId, InteractionId]:
    """Two questions of one turn; the function that asked the first one died."""
    first, second = (
        a_call(n, name="ask", kind="interactive", timeout_s=3600, arguments={"question": f"Which {n}?"}) for n in (0, 1)
    )
    begin(a_run(ASK, created_at=now()), first, second)
    service.start(require_run(RUN_ID))
    service.waiting.add("alive")
    ask(RUN_ID, first.call_id, "dead")
    ask(RUN_ID, second.call_id, "alive")
    one, two = require_run(RUN_ID).pending
    return one, two


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Has something happen while an answer waits for its state."""

    def happens(act: Callable[[], object]) -> None:
        clear = store.clear_question

        def cleared(asked: Interaction) -> None:
            monkeypatch.setattr(store, "clear_question", clear)
            clear(asked)
            act()

        monkeypatch.setattr(store, "clear_question", cleared)
        monkeypatch.setattr(delivering, "_RETRIES_S", 1)

    return happens


def come_back(service: Service) -> None:
    """The state machine enters the state of the first question again."""
    service.waiting.add("again")
    ask(RUN_ID, "call_1_1_0", "again")


@pytest.mark.parametrize("words", [("blue", "red"), ("yes", "yes")])
def test_next_message_answers_the_next_question_while_the_answer_to_the_first_one_waits(
    service: Service, meanwhile: Callable[[Callable[[], object]], None], words: tuple[str, str]
) -> None:
    questions = two_questions(service)

    def said() -> None:
        beginning._continue(require_run(RUN_ID), chat(words[1]), None)
        come_back(service)

    meanwhile(said)
    beginning._continue(require_run(RUN_ID), chat(words[0]), None)
    assert tuple(read_interaction(each, OWNER).answer for each in questions) == words
    assert (service.waiting, require_run(RUN_ID).pending) == (set(), ())


def test_run_waits_with_no_question_whose_answer_waits_for_its_state(
    service: Service, meanwhile: Callable[[Callable[[], object]], None]
) -> None:
    first, second = two_questions(service)
    pending: list[InteractionId] = []
    meanwhile(lambda: pending.extend(require_run(RUN_ID).pending))
    with pytest.raises(Expired):
        answer(first, OWNER, "blue")
    assert pending == [second]


def test_result_that_the_next_run_has_read_stays_when_its_answer_came_too_late(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = begun(service)
    question = asked(service)
    service.waiting.clear()  # the execution was stopped from outside
    service.standing[RUN_ID] = "ABORTED"
    process = RecentHistory()

    def next_run_begins(token: str, next_kind: Mapping[str, Any] = {}) -> bool:
        end_run(require_run(RUN_ID), CANCELLED)
        create_run(a_run(run_id=f"run_{run.key.session}_2"), [UserMessage(text="And now?")])
        process.load(run.key.session)
        return False

    monkeypatch.setattr(delivering, "resume_execution", next_run_begins)
    with suppress(Expired):
        answer(question, OWNER, "blue")
    assert process.load(run.key.session) == load_history(run.key.session)
