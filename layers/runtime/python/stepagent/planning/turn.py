"""One turn of a run that works by a plan: the plan is made, carried on, or answered from. Pure: the model is handed in.

A turn either changes the plan or, where nothing of it is left to do, answers. So it does not matter in which state of
the state machine a turn is entered, and one that is entered again comes to the same.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from stepagent.answer_form import AnswerForm
from stepagent.budget import Reached, calls_of, reached
from stepagent.clock import now
from stepagent.llm.reply import Reply
from stepagent.messages import AssistantMessage, Message
from stepagent.planning import words
from stepagent.planning.confirming import Confirmation, read_confirmation
from stepagent.planning.plan import Plan, PlannedStep, StepStatus, begun, in_lines, make_plan, settled
from stepagent.planning.reading import read_as
from stepagent.planning.revising import PlanDraft, PlanUpdate, replaced, updated
from stepagent.planning.steps import confirm_call, question_in, reference, step_calls, to_tool_call
from stepagent.runs import Call, Decision, Failure, Run, StopReason, TurnRecord
from stepagent.turn import agent_words, answer, close, request_of, run_turn
from stepagent.usable import Ask, ask_until_usable, in_form, read_reply
from stepagent.usage import Usage

_CORRECTIONS = 2  # of a plan that cannot be carried out; then the run goes on without it
_WHOLE_TASK = PlannedStep(id="a", title="Do what is asked", description="All of what the plan is for, in one step.")
_OUT_OF_REVISIONS = Reached(
    StopReason.MAX_REVISIONS, "The plan may not be changed any more.", "the plan could not be changed any more"
)
_BEHIND_BLOCKED = "What waits for a step that is blocked is skipped."
_NO_WORDS = Reached(StopReason.ANSWERED, "", "its model gave no answer in words")
Read = TypeVar("Read")


class _Change(NamedTuple):
    """A plan as a turn leaves it, why its steps are others (None where they are not), by whom, and what that cost."""

    plan: Plan
    news: str | None = None
    by_person: bool = False
    usage: Usage = Usage()


def run_plan_turn(run: Run, turn: int, entries: Sequence[Message | Call], ask: Ask) -> TurnRecord:
    """Carries the run's plan on as far as one turn goes.

    Args:
        run: the run as it stands, with its plan if it has one.
        turn: counts from 1.
        entries: the session's messages and calls in order.
        ask: the model.

    Raises:
        ModelError: the model gave no usable reply; its usage is that of all that was asked.
    """
    bound = reached(run, turn, entries, now())
    if run.plan is None:
        # Without a plan there is nothing to land from but the conversation, as in any other run.
        return run_turn(run, turn, entries, ask) if bound else _act(run, turn, entries, _made(run, entries, ask))
    confirmation = read_confirmation(run, turn, entries)
    if isinstance(confirmation, Failure):
        return _failed(run, turn, confirmation)
    plan = settled(run.plan, {call.call_id: _has_failed(call) for call in calls_of(run, entries)})
    change = _Change(plan) if bound else _changed(run, run.plan, plan, confirmation, entries, ask)
    if change.plan.ready and not bound:
        return _act(run, turn, entries, change)
    left = change.plan.marked(StepStatus.SKIPPED, change.plan.having(StepStatus.PENDING))
    if left == run.plan:
        return _answer(run, turn, entries, ask, bound)
    decision = Decision(run_id=run.run_id, turn=turn, next="answer", reason=bound.reason if bound else "")
    news = change.news
    if news is None and left != change.plan:  # who follows the run is told of what it gives up
        news = bound.to_model if bound else _BEHIND_BLOCKED
    return TurnRecord(decision, None, (), change.usage, plan=left, news=news)


def _has_failed(call: Call) -> bool:
    """Whether a step failed; one whose call ended without a result did."""
    return call.result is None or call.result.is_error


def _changed(
    run: Run, before: Plan, plan: Plan, confirmation: Confirmation | None, entries: Sequence[Message | Call], ask: Ask
) -> _Change:
    """The plan after what a person said of it, or, where a step brought something new, after the model looked at it."""
    if confirmation:
        return _confirmed(run, plan, confirmation, entries, ask)
    return _reviewed(run, plan, entries, ask) if _wants_review(run, before, plan) else _Change(plan)


def _wants_review(run: Run, before: Plan, plan: Plan) -> bool:
    news = {step.status for step, old in zip(plan.steps, before.steps, strict=True) if step.status is not old.status}
    if _is_out_of_revisions(run, plan):
        return False
    goes_on = StepStatus.DONE in news and bool(plan.having(StepStatus.PENDING))
    return StepStatus.BLOCKED in news or (run.agent.plan.review == "always" and goes_on)


def _is_out_of_revisions(run: Run, plan: Plan) -> bool:
    return plan.revision > run.agent.plan.max_revisions


# ---- what the model says of a plan


def _made(run: Run, entries: Sequence[Message | Call], ask: Ask) -> _Change:
    """A first plan; where the model makes none that can be carried out, one step for all of it."""
    spec = run.agent.plan
    reply, plan = _draft(run, entries, ask, words.MAKE_PLAN, lambda draft: make_plan(draft.steps, spec.max_steps))
    return _Change(plan or make_plan([_WHOLE_TASK], spec.max_steps), "", usage=reply.usage)


def _reviewed(run: Run, plan: Plan, entries: Sequence[Message | Call], ask: Ask) -> _Change:
    """The plan with the changes that the model wants; as it is, where it wants none that can be made."""
    max_steps = run.agent.plan.max_steps
    closing = words.REVIEW.format(plan=words.standing(plan))
    rules = words.reviewing_words(run.tools, max_steps)

    def read(text: str) -> tuple[Plan, PlanUpdate]:
        update = read_as(PlanUpdate, text)
        return updated(plan, update, max_steps), update

    reply, found = _asked(run, entries, ask, words.UPDATE_FORM, rules, closing, read)
    changed, update = found or (plan, PlanUpdate())
    return _Change(changed, None if update.is_empty else update.why, usage=reply.usage)


def _confirmed(
    run: Run, plan: Plan, confirmation: Confirmation, entries: Sequence[Message | Call], ask: Ask
) -> _Change:
    """The plan as a person wants it, or another one where they rejected it."""
    max_steps = run.agent.plan.max_steps
    rejected = plan.marked(StepStatus.BLOCKED, plan.having(StepStatus.PENDING))  # what nobody lets run is not run
    match confirmation.decision:
        case "approve":
            return _Change(plan)
        case "edit":
            return _Change(replaced(plan, confirmation.steps, max_steps), "A person changed the plan.", by_person=True)
        case "reject" if _is_out_of_revisions(run, plan):
            return _Change(rejected, "A person rejected the plan.")
    closing = words.remake(confirmation.reason)
    reply, made = _draft(run, entries, ask, closing, lambda draft: replaced(plan, draft.steps, max_steps))
    return _Change(made or rejected, "A person rejected the plan.", usage=reply.usage)


def _draft(
    run: Run, entries: Sequence[Message | Call], ask: Ask, closing: str, make: Callable[[PlanDraft], Plan]
) -> tuple[Reply, Plan | None]:
    rules = words.planning_words(run.tools, run.agent.plan.max_steps)
    return _asked(run, entries, ask, words.PLAN_FORM, rules, closing, lambda text: make(read_as(PlanDraft, text)))


def _asked(
    run: Run,
    entries: Sequence[Message | Call],
    ask: Ask,
    form: AnswerForm,
    rules: str,
    closing: str,
    read: Callable[[str], Read],
) -> tuple[Reply, Read | None]:
    """What the model says in a form; None where it says nothing that can be used, twice told why."""
    request = request_of(run, entries, (*agent_words(run), rules), form)._replace(closing=closing)
    reply, found, _ = read_reply(request, ask_until_usable(ask, request), ask, read, corrections=_CORRECTIONS)
    return reply, found


# ---- what a turn comes to


def _act(run: Run, turn: int, entries: Sequence[Message | Call], change: _Change) -> TurnRecord:
    """The steps that may run now run; where a person must see a plan that is new to them, they are asked first."""
    plan, told = change.plan, change.news is not None
    asks = run.agent.plan.confirm and told and not change.by_person
    calls = [confirm_call(run, turn, plan)] if asks else step_calls(run, turn, plan, entries)
    decision = Decision(
        run_id=run.run_id,
        turn=turn,
        next="confirm" if asks else "act",
        calls=tuple(map(reference, calls)),
        max_concurrency=run.agent.limits.max_concurrency,
    )
    text = "\n".join(in_lines(plan.having(StepStatus.PENDING))) if told else ""
    message = AssistantMessage(text=text, calls=tuple(map(to_tool_call, calls)))
    steps = {str(call.arguments["step"]): call.call_id for call in calls if call.kind == "step"}
    return TurnRecord(decision, message, calls, change.usage, plan=begun(plan, steps), news=change.news)


def _answer(run: Run, turn: int, entries: Sequence[Message | Call], ask: Ask, bound: Reached | None) -> TurnRecord:
    """The answer from what the steps came to; where a bound ended them, a soft landing as in any other run."""
    plan = run.plan
    assert plan is not None  # it was carried out
    if bound is None and plan.having(StepStatus.BLOCKED) and _is_out_of_revisions(run, plan):
        bound = _OUT_OF_REVISIONS
    closing = words.answering(plan, question_in(entries).text, bound.to_model if bound else "")
    request = request_of(run, entries, agent_words(run), run.agent.answer_form)._replace(closing=closing)
    reply = in_form(request, ask(request) if bound else ask_until_usable(ask, request), ask)
    if bound is None and not (reply.text.strip() or reply.refusal):
        bound = _NO_WORDS
    return close(run, turn, bound, reply) if bound else answer(run, turn, reply)


def _failed(run: Run, turn: int, failure: Failure) -> TurnRecord:
    decision = Decision(run_id=run.run_id, turn=turn, next="fail", reason=failure.code)
    return TurnRecord(decision, None, (), Usage(), failure=failure)
