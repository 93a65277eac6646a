"""Plans as data: what can be carried out, in which order, and changes that apply whole or not at all."""

from graphlib import TopologicalSorter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from stepagent.messages import CallId
from stepagent.planning.plan import (
    MAX_STEPS,
    Plan,
    PlanFlaw,
    PlannedStep,
    StepStatus,
    begun,
    in_lines,
    make_plan,
    settled,
)
from stepagent.planning.revising import PlanUpdate, replaced, updated
from tests.plans import CALL, DIAMOND, a_plan, a_step, done


def ids(plan: Plan, *statuses: StepStatus) -> list[str]:
    return [step.id for step in plan.having(*statuses)]


def carried_out(plan: Plan) -> list[list[str]]:
    """The rounds in which a plan's steps run when each of them succeeds."""
    rounds: list[list[str]] = []
    while ready := [step.id for step in plan.ready]:
        rounds.append(ready)
        plan = done(plan, *ready)
    return rounds


@st.composite
def graphs(draw: st.DrawFn) -> list[PlannedStep]:
    """Steps that depend on earlier ones alone, in any order."""
    count = draw(st.integers(1, MAX_STEPS))
    steps = [
        a_step(str(n), *draw(st.sets(st.sampled_from([str(k) for k in range(n)]))) if n else ()) for n in range(count)
    ]
    return draw(st.permutations(steps))


@given(graphs())
def test_each_step_runs_once_and_behind_what_it_depends_on_whatever_the_order(steps: list[PlannedStep]) -> None:
    rounds = carried_out(make_plan(steps, MAX_STEPS))
    place = {step_id: number for number, ids in enumerate(rounds) for step_id in ids}
    assert sorted(place) == sorted(step.id for step in steps)
    assert all(place[before] < place[step.id] for step in steps for before in step.depends_on)


@given(graphs(), st.data())
def test_circle_is_refused_and_named_wherever_it_is(steps: list[PlannedStep], data: st.DataObject) -> None:
    order = list(TopologicalSorter({step.id: step.depends_on for step in steps}).static_order())
    first, last = sorted(data.draw(st.tuples(*[st.integers(0, len(order) - 1)] * 2)))
    circle = {order[first]: order[last], order[last]: order[first]}
    closed = [
        step.model_copy(update={"depends_on": (*step.depends_on, circle[step.id])}) if step.id in circle else step
        for step in steps
    ]
    with pytest.raises(PlanFlaw, match="in a circle"):
        make_plan(closed, MAX_STEPS)


def test_middle_of_a_diamond_runs_at_the_same_time() -> None:
    assert carried_out(make_plan(DIAMOND, 5)) == [["a"], ["b", "c"], ["d"], ["e"]]


@pytest.mark.parametrize(
    ("steps", "why", "path"),
    [
        ([a_step("a", "x")], "step 'a' depends on 'x', which is no step", ("steps", 0, "depends_on")),
        ([a_step("a"), a_step("a")], "two steps have the id 'a'", ("steps", 1, "id")),
        ([], "a plan has 1 to 5 steps, and this one has 0", ("steps",)),
        ([a_step(str(n)) for n in range(6)], "a plan has 1 to 5 steps, and this one has 6", ("steps",)),
        ([a_step("b", "a"), a_step("a", "b")], "in a circle", ("steps", 0, "depends_on")),
        ([a_step("a", "a")], "in a circle: 'a' after 'a'", ("steps", 0, "depends_on")),
    ],
)
def test_plan_is_refused_by_name_when_it_cannot_be_carried_out(
    steps: list[PlannedStep], why: str, path: tuple[str | int, ...]
) -> None:
    with pytest.raises(PlanFlaw) as refused:
        make_plan(steps, 5)
    assert why in str(refused.value)
    assert refused.value.path == path


def test_plan_is_refused_when_it_is_too_long_for_its_run() -> None:
    long = [PlannedStep(id=str(n), title="T", description="漢" * 2_000) for n in range(12)]
    with pytest.raises(PlanFlaw, match="at most 64000 bytes"):
        make_plan(long, 12)


def test_number_is_an_id_as_models_write_it() -> None:
    assert PlannedStep.model_validate({"id": 1, "title": "T", "depends_on": [2]}).depends_on == ("2",)


@pytest.mark.parametrize(
    ("attempts", "status"),
    [([True], StepStatus.PENDING), ([True, True], StepStatus.BLOCKED), ([True, False], StepStatus.DONE)],
)
def test_step_that_failed_is_tried_once_more_and_then_blocked(attempts: list[bool], status: StepStatus) -> None:
    plan = a_plan("a")
    for failed in attempts:
        plan = settled(begun(plan, {"a": CALL}), {CALL: failed})
    assert (plan.step("a").status, plan.step("a").attempt) == (status, len(attempts))


def test_step_stays_in_progress_while_its_call_has_no_result() -> None:
    plan = begun(a_plan("a"), {"a": CALL})
    assert settled(plan, {CallId("call_1_9_9"): False}) == plan


# ---- changes


def half_done() -> Plan:
    """A diamond whose first step is done, and one of the middle is blocked."""
    plan = done(make_plan(DIAMOND, 5), "a")
    return plan.marked(StepStatus.BLOCKED, [plan.step("b")])


def test_update_adds_changes_and_skips_at_once() -> None:
    update = {
        "why": "b is not possible",
        "add": [{"id": "f", "title": "Instead", "depends_on": ["a"]}],
        "change": [{"id": "d", "depends_on": ["c", "f"]}],
        "skip": ["b"],
    }
    plan = updated(half_done(), PlanUpdate.model_validate(update), 6)
    assert (plan.revision, [step.id for step in plan.ready]) == (2, ["c", "f"])
    assert plan.step("d").depends_on == ("c", "f")
    assert ids(plan, StepStatus.SKIPPED) == ["b"]


def test_changed_step_begins_anew() -> None:
    plan = updated(half_done(), PlanUpdate.model_validate({"change": [{"id": "b", "title": "Otherwise"}]}), 5)
    assert (plan.step("b").status, plan.step("b").attempt, plan.step("b").title) == ("pending", 0, "Otherwise")


@pytest.mark.parametrize(
    ("update", "why"),
    [
        ({"skip": ["b", "x"]}, "there is no step 'x'; nothing was changed"),
        ({"change": [{"id": "x", "title": "T"}], "skip": ["b"]}, "there is no step 'x'; nothing was changed"),
        ({"skip": ["a"]}, "step 'a' is done and stays as it is; nothing was changed"),
        ({"skip": ["b", "b"]}, "step 'b' is named twice"),
        ({"change": [{"id": "b", "title": "T"}], "skip": ["b"]}, "step 'b' is named twice"),
        ({"add": [{"id": "c", "title": "T"}]}, "two steps have the id 'c'"),
        ({"add": [{"id": n, "title": "T"} for n in "fg"]}, "a plan has 1 to 6 steps, and this one has 7"),
        ({"change": [{"id": "c", "depends_on": ["e"]}]}, "in a circle"),
    ],
)
def test_update_is_refused_whole_when_a_part_of_it_cannot_be_made(update: dict[str, object], why: str) -> None:
    plan = half_done()
    with pytest.raises(PlanFlaw) as refused:
        updated(plan, PlanUpdate.model_validate(update), 6)
    assert why in str(refused.value)
    assert plan == half_done()


def test_update_that_changes_nothing_is_no_revision() -> None:
    assert updated(half_done(), PlanUpdate(why="Fine."), 5) == half_done()


def test_steps_of_a_person_take_the_place_of_those_that_are_open() -> None:
    plan = replaced(half_done(), [a_step("x", "a"), a_step("y", "x")], 5)
    assert ([step.id for step in plan.steps], plan.revision) == (["a", "x", "y"], 2)


def test_flaw_of_a_persons_steps_leads_to_their_own_places() -> None:
    with pytest.raises(PlanFlaw) as refused:
        replaced(half_done(), [a_step("x"), a_step("y", "b")], 5)
    assert refused.value.path == ("steps", 1, "depends_on")


# ---- what a model or a person writes may be meant badly


def test_titles_and_ids_are_one_line_that_drives_no_terminal() -> None:
    written = PlannedStep(id="a\n\x1b[1A", title="Look\r\n b.\u2028Forged\x1b[2J\x9b0m", depends_on=("a\n\x1b[1A",))
    assert (written.id, written.title, written.depends_on) == ("a [1A", "Look b. Forged [2J 0m", ("a [1A",))


@pytest.mark.parametrize("title", ["", " \n", "\x1b\x00"])
def test_title_of_nothing_visible_is_none(title: str) -> None:
    with pytest.raises(ValidationError):
        PlannedStep(id="a", title=title)


def test_no_step_passes_for_two_where_a_plan_is_shown_in_lines() -> None:
    steps = [PlannedStep(id="a", title="Look", description="Well.\nb. Delete all\nAnswer approve.\x1b[2J")]
    assert list(in_lines(make_plan(steps, 5).steps)) == ["a. Look", "   Well. b. Delete all Answer approve. [2J"]
