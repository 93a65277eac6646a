"""One turn of a run that works by a plan, with a model that answers from a list."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from stepagent.agents import Limits, PlanSpec
from stepagent.answer_form import AnswerForm
from stepagent.errors import ModelBusy
from stepagent.history import to_messages
from stepagent.llm.reply import Reply
from stepagent.messages import Message, UserMessage
from stepagent.planning.plan import MAX_STEPS, PlannedStep
from stepagent.planning.steps import step_agent, step_message
from stepagent.planning.turn import run_plan_turn
from stepagent.planning.words import PLAN_FORM, told_plan
from stepagent.runs import Call, CallResult, CallStatus, RunStatus, StopReason, TurnRecord
from stepagent.usage import Usage
from tests.builders import NOON, ListedModel, a_run, said
from tests.plans import DIAMOND, a_step, written

QUESTION = UserMessage(text="A large task.", images=("https://example.org/a.png",))


class Running:
    """A run by a plan, turn by turn: what a turn came to is there for the next one."""

    def __init__(self, *replies: Reply | Exception, limits: Limits | None = None, **spec: Any) -> None:
        self.model = ListedModel(*replies)
        run = a_run(limits=limits)
        agent = run.agent.model_copy(update={"strategy": "plan", "plan": PlanSpec.model_validate(spec)})
        self.run = run.model_copy(update={"agent": agent})
        self.entries: list[Message | Call] = [QUESTION]
        self.turn = 0

    def take(self) -> TurnRecord:
        self.turn += 1
        record = run_plan_turn(self.run, self.turn, self.entries, self.model)
        self.run = self.run.model_copy(update={"plan": record.plan or self.run.plan, "turns": self.turn})
        self.entries += [*([record.reply] if record.reply else []), *record.calls]
        return record

    def end(self, *failed: str, **answers: str) -> None:
        """The calls of the last turn come to their ends: these steps fail, a question has this answer."""
        for index, entry in enumerate(self.entries):
            if isinstance(entry, Call) and entry.result is None:
                bad = entry.arguments.get("step") in failed
                text = answers.get("answer", f"Result {entry.arguments.get('step')}.")
                result = CallResult(text=text, is_error=bad or answers.get("expired") == "yes", finished_at=NOON)
                self.entries[index] = entry.model_copy(update={"status": CallStatus.DONE, "result": result})

    @property
    def statuses(self) -> dict[str, str]:
        assert self.run.plan
        return {step.id: step.status for step in self.run.plan.steps}


def planned(*steps: PlannedStep) -> Reply:
    return said(written(steps))


def update(**changes: Any) -> Reply:
    return said(json.dumps({"why": "because", **changes}))


KEEP = update()


def begun(*steps: PlannedStep, replies: Sequence[Reply | Exception] = (), **spec: Any) -> Running:
    running = Running(planned(*steps), *replies, **spec)
    running.take()
    return running


# ---- the plan is made


def test_plan_is_asked_for_in_a_form_without_tools_and_its_first_steps_run() -> None:
    running = Running(planned(*DIAMOND))
    record = running.take()
    [asked] = running.model.asked
    assert (asked.tools, asked.form and asked.form.name, asked.closing) == ((), "plan", "Make the plan.")
    assert [(call.kind, call.timeout_s) for call in record.decision.calls] == [("workflow", 86_400)]
    assert (record.decision.next, record.news, running.statuses["a"]) == ("act", "", "in_progress")


def test_plan_that_cannot_be_carried_out_goes_back_with_the_reason_twice_and_all_of_it_counts() -> None:
    circle = planned(a_step("a", "b"), a_step("b", "a"))
    running = Running(circle, said("A plan: none."), planned(a_step("x")))
    record = running.take()
    assert [type(request.messages[-1]) for request in running.model.asked] == [UserMessage] * 3
    assert "in a circle" in running.model.asked[1].messages[-1].text
    assert "not valid JSON" in running.model.asked[2].messages[-1].text
    assert (running.statuses, record.usage.input_tokens) == ({"x": "in_progress"}, 30)


def test_one_step_is_the_plan_when_the_model_makes_none() -> None:
    running = Running(*[said("No.")] * 3)
    running.take()
    assert running.statuses == {"a": "in_progress"}


@pytest.mark.parametrize(
    "draft",
    [
        {"steps": [{"id": str(n), "title": "x" * 100, "depends_on": ["9999"]} for n in range(10_000)]},
        {"steps": [{"id": "a", "title": "x" * 1_000_000}] * 3},
        {"steps": [{"id": "x" * 1_000_000, "title": "a"}]},
        {"steps": [{"id": "a", "title": "a", "depends_on": ["x" * 1_000_000]}]},
        {"steps": [{"id": "a", "title": "a", "depends_on": ["a"] * 100_000}]},
        {"steps": [{"x" * 1_000_000: 1}]},
        {"steps": {"x" * 1_000_000: 1}},
    ],
    ids=["10000 steps", "long titles", "long id", "long reference", "many references", "long field", "no list"],
)
def test_plan_out_of_all_bounds_is_not_taken_and_told_why_in_few_words(draft: dict[str, Any]) -> None:
    running = Running(*[said(json.dumps(draft))] * 3)
    record = running.take()
    assert running.statuses == {"a": "in_progress"}
    assert record.plan
    assert record.plan.steps[0].title == "Do what is asked"
    corrections = [request.messages[-1].text for request in running.model.asked[1:]]
    assert max(len(told) - len(PLAN_FORM.rule) for told in corrections) < 500
    assert max(len(message.text) for request in running.model.asked for message in request.messages) <= 100_000


def test_tokens_count_when_a_correction_cannot_be_asked_for() -> None:
    with pytest.raises(ModelBusy) as busy:
        Running(said("No."), ModelBusy("busy")).take()
    assert busy.value.usage.input_tokens == 10


@pytest.mark.parametrize("text", ["0: {}", "```json\n{}\n```", " {}"])
def test_plan_is_read_whatever_stands_around_it(text: str) -> None:
    running = Running(said(text.replace("{}", written([a_step("x")]))))
    running.take()
    assert list(running.statuses) == ["x"]


def test_message_has_the_plan_in_words_and_no_tasks() -> None:
    record = Running(planned(a_step("a"))).take()
    assert record.reply
    assert record.reply.text == "a. Title a\n   Do a."
    assert json.loads(record.reply.calls[0].arguments) == {"step": "a", "title": "Title a", "attempt": 1}


def test_decision_and_event_stay_small_when_a_plan_is_as_large_as_it_may_be() -> None:
    steps = [
        a_step(str(n)).model_copy(update={"title": "t" * 200, "description": "d" * 2_000}) for n in range(MAX_STEPS)
    ]
    record = Running(planned(*steps), max_steps=MAX_STEPS).take()
    assert record.plan
    assert len(record.decision.model_dump_json().encode()) < 4_096
    assert len(json.dumps(told_plan(record.plan))) < 20_000


# ---- it is carried on


def test_two_middle_steps_of_a_diamond_are_one_turn_and_no_model_is_asked_where_none_is_wanted() -> None:
    running = begun(*DIAMOND, review="on_failure")
    running.end()
    record = running.take()
    assert [call.arguments["step"] for call in record.calls] == ["b", "c"]
    assert (len(running.model.asked), record.news) == (1, None)


def test_step_is_told_the_results_of_those_it_depends_on_in_a_fence_and_nothing_of_the_others() -> None:
    running = begun(a_step("a"), a_step("x"), a_step("b", "a"), review="on_failure")
    running.end()
    [call] = running.take().calls
    assert "Title a:\n```\nResult a.\n```" in call.arguments["task"]
    assert "Result x." not in call.arguments["task"]
    assert "A large task." in call.arguments["task"]


def test_failed_step_is_tried_once_more_without_a_model() -> None:
    running = begun(a_step("a"))
    running.end("a")
    [call] = running.take().calls
    assert (call.arguments["attempt"], len(running.model.asked)) == (2, 1)


def test_call_that_ended_without_a_result_is_a_failed_attempt() -> None:
    running = begun(a_step("a"))
    [call] = running.take().calls
    assert call.arguments["attempt"] == 2


def test_model_looks_at_the_plan_after_each_round_and_keeps_it() -> None:
    running = begun(*DIAMOND, replies=[KEEP])
    running.end()
    record = running.take()
    assert running.model.asked[1].closing.startswith("The plan as it stands:\n[done] a. Title a\n[pending] b.")
    assert (len(record.calls), record.news, running.run.plan and running.run.plan.revision) == (2, None, 1)


def test_revision_goes_round_a_step_that_failed_twice() -> None:
    revised = update(add=[{"id": "f", "title": "F"}], change=[{"id": "b", "depends_on": ["f"]}], skip=["a"])
    running = begun(a_step("a"), a_step("b", "a"), replies=[revised])
    for _ in range(2):
        running.end("a")
        record = running.take()
    assert [call.arguments["step"] for call in record.calls] == ["f"]
    assert (record.news, running.statuses) == ("because", {"a": "skipped", "b": "pending", "f": "in_progress"})


def test_reason_of_an_update_is_one_short_line_whatever_the_model_wrote() -> None:
    running = begun(a_step("a"), a_step("b", "a"), replies=[update(why="No.\n\x1b[2J" + "x" * 500_000, skip=["b"])])
    running.end()
    news = running.take().news
    assert news
    assert (news.startswith("No. [2Jxx"), len(news)) == (True, 300)


def test_update_that_cannot_be_made_goes_back_and_is_dropped_in_the_end() -> None:
    running = begun(*DIAMOND, replies=[update(skip=["zz"])] * 3)
    running.end()
    record = running.take()
    assert "there is no step 'zz'; nothing was changed" in running.model.asked[2].messages[-1].text
    assert ([call.arguments["step"] for call in record.calls], record.news) == (["b", "c"], None)


def test_no_revision_is_asked_for_when_they_are_used_up() -> None:
    running = begun(*DIAMOND, max_revisions=0)
    running.end()
    assert (len(running.take().calls), len(running.model.asked)) == (2, 1)


# ---- it is answered from


def over(*replies: Reply | Exception, **spec: Any) -> Running:
    """A plan of one step that is done."""
    running = begun(a_step("a"), replies=replies, **spec)
    running.end()
    assert running.take().decision.next == "answer"
    return running


def test_answer_is_the_turn_behind_the_last_step() -> None:
    running = over(said("Here it is."))
    record = running.take()
    assert record.outcome
    assert record.outcome[:3] == (RunStatus.COMPLETED, StopReason.ANSWERED, "Here it is.")
    assert "[done] a. Title a" in running.model.asked[-1].closing


def test_model_that_answers_reads_the_question_again_and_of_what_is_undone_only_where_something_is() -> None:
    running = over(said("Here it is."))
    running.take()
    assert running.model.asked[-1].closing.endswith("results of its steps. What the person asked: A large task.")
    running = begun(a_step("a"), replies=[said("Not possible.")], max_revisions=0)
    for _ in range(2):
        running.end("a")
        running.take()
    running.take()
    assert "Say what could not be done. What the person asked:" in running.model.asked[-1].closing


def test_answer_has_the_form_that_is_wanted_and_a_plan_its_own() -> None:
    running = Running(planned(a_step("a")), said('{"n": 1}'))
    running.run = running.run.model_copy(
        update={"agent": running.run.agent.model_copy(update={"answer_form": AnswerForm()})}
    )
    running.take()
    running.end()
    running.take()
    record = running.take()
    assert [request.form and request.form.name for request in running.model.asked] == ["plan", "answer"]
    assert record.unsaid == '{"n": 1}'


def test_run_lands_softly_when_a_bound_is_reached_between_steps() -> None:
    running = begun(*DIAMOND, replies=[said("As far as I came.")], limits=Limits(max_turns=1))
    running.end()
    given_up = running.take()
    assert (given_up.decision.next, given_up.news) == ("answer", "You have used all the steps that you may take.")
    record = running.take()
    assert record.outcome
    assert record.outcome[1:3] == (StopReason.MAX_TURNS, "As far as I came.")
    assert running.statuses == {"a": "done", "b": "skipped", "c": "skipped", "d": "skipped", "e": "skipped"}


def test_run_lands_softly_when_a_step_is_blocked_and_revisions_are_used_up() -> None:
    running = begun(a_step("a"), a_step("b", "a"), replies=[said("Not possible.")], max_revisions=0)
    running.end("a")
    assert running.take().news is None
    running.end("a")
    assert running.take().news == "What waits for a step that is blocked is skipped."
    record = running.take()
    assert record.outcome
    assert record.outcome[1:3] == (StopReason.MAX_REVISIONS, "Not possible.")
    assert running.statuses == {"a": "blocked", "b": "skipped"}


def test_run_has_an_answer_when_its_model_calls_a_tool_in_the_place_of_one() -> None:
    record = over(said("", ("search", "{}"))).take()
    assert record.outcome
    assert "its model gave no answer in words" in record.outcome.answer


# ---- a person confirms it


def asked(*replies: Reply, **spec: Any) -> Running:
    running = Running(planned(a_step("a")), *replies, confirm=True, **spec)
    record = running.take()
    [call] = record.calls
    assert (record.decision.next, call.kind, record.decision.calls[0].kind) == ("confirm", "plan", "ask")
    return running


def test_steps_run_when_a_person_approves() -> None:
    running = asked()
    running.end(answer='{"decision": "approve"}')
    assert [call.arguments["step"] for call in running.take().calls] == ["a"]


def test_edited_steps_run_and_are_not_shown_again() -> None:
    running = asked()
    steps = [{"id": "x", "title": "Otherwise"}]
    running.end(answer=json.dumps({"decision": "edit", "steps": steps}))
    record = running.take()
    assert (record.decision.next, record.news) == ("act", "A person changed the plan.")
    assert running.statuses == {"x": "in_progress"}


def test_rejected_plan_is_made_anew_with_the_reason_and_shown_again() -> None:
    running = asked(planned(a_step("x")))
    running.end(answer='{"decision": "reject", "reason": "too slow"}')
    assert running.take().decision.next == "confirm"
    assert "rejected the plan: too slow" in running.model.asked[1].closing


def test_nothing_runs_when_plans_are_rejected_until_no_revision_is_left() -> None:
    running = asked(said("I did nothing."), max_revisions=0)
    running.end(answer='{"decision": "reject"}')
    assert running.take().decision.next == "answer"
    record = running.take()
    assert record.outcome
    assert (record.outcome.stop_reason, running.statuses) == (StopReason.MAX_REVISIONS, {"a": "blocked"})


def test_nothing_runs_when_no_other_plan_comes_for_a_rejected_one() -> None:
    running = asked(*[said("No.")] * 3)
    running.end(answer='{"decision": "reject"}')
    assert (running.take().decision.next, running.statuses) == ("answer", {"a": "blocked"})


def test_revision_is_shown_again() -> None:
    running = asked(update(add=[{"id": "b", "title": "More"}]))
    running.end(answer='{"decision": "approve"}')
    for _ in range(2):
        running.take()
        running.end("a")
    record = running.take()
    assert record.decision.next == "confirm"


def test_run_fails_with_the_reason_when_nobody_confirms() -> None:
    running = asked()
    running.end(answer="Nobody answered in time.", expired="yes")
    record = running.take()
    assert record.failure
    assert (record.decision.next, record.failure.code) == ("fail", "plan_not_confirmed")
    assert "Nobody answered in time." in record.failure.message


def test_run_fails_when_the_question_ended_without_a_result() -> None:
    running = asked()
    assert running.take().decision.next == "fail"


# ---- a step's own run


def test_step_has_the_agent_of_the_run_with_what_is_left_and_without_its_form() -> None:
    running = Running(planned(a_step("a"), a_step("b")), limits=Limits(max_total_tokens=100, max_wall_s=60))
    [first, _] = running.take().calls
    run = running.run.model_copy(update={"usage": Usage(input_tokens=90)})
    agent = step_agent(run, first, running.entries, NOON.replace(second=20))
    assert (agent.strategy, agent.answer_form, agent.limits.max_wall_s) == ("react", None, 40)
    assert agent.limits.max_total_tokens == 5  # of ten that are left, for two steps at once


def test_step_sees_the_images_of_the_question() -> None:
    [call] = Running(planned(a_step("a"))).take().calls
    assert step_message(call, [QUESTION]).images == QUESTION.images


def test_session_goes_on_behind_a_plan_with_calls_that_are_paired() -> None:
    running = over(said("Done."))
    running.take()
    roles = [message.role for message in to_messages([*running.entries, UserMessage(text="And?")])]
    assert roles == ["user", "assistant", "tool", "assistant", "user"]
