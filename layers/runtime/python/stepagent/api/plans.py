"""The plan of a run as it stands at this moment."""

from stepagent.budget import calls_of
from stepagent.planning.plan import Plan, StepStatus, settled
from stepagent.runs import ENDED, Run
from stepagent.store.conversation import load_conversation


def with_live_plan(run: Run) -> Run:
    """The run with what its steps have come to since its last turn; steps that an ended run left are skipped."""
    if run.plan is None:
        return run
    plan = _settled(run, run.plan) if run.plan.having(StepStatus.IN_PROGRESS) else run.plan
    left = plan.having(StepStatus.PENDING, StepStatus.IN_PROGRESS) if run.status in ENDED else ()
    return run.model_copy(update={"plan": plan.marked(StepStatus.SKIPPED, left)})


def _settled(run: Run, plan: Plan) -> Plan:
    calls = calls_of(run, load_conversation(run.key))
    return settled(plan, {call.call_id: call.result.is_error for call in calls if call.result})
