"""An agent as one request wants it."""

from typing import Any

from stepagent.agents import MODEL_FIELDS, AgentSpec
from stepagent.api.requests import ChatRequest
from stepagent.errors import InvalidRequest
from stepagent.llm.registry import MODELS_FILE, ModelSpec, load_models
from stepagent.settings import settings


def as_wanted(agent: AgentSpec, request: ChatRequest) -> AgentSpec:
    """The agent with what this request asks for otherwise; it may lower the agent's bounds, not raise them.

    Raises:
        InvalidRequest: its model does not take what is asked for.
    """
    changes: dict[str, Any] = request.model_dump(include=set(MODEL_FIELDS), exclude_defaults=True)
    if changes:
        _check(agent, changes, load_models(settings().catalog_dir / MODELS_FILE).get(agent.model))
    if "stop" in changes:
        changes["stop"] = tuple(changes["stop"])
    changes |= request.model_dump(include={"strategy", "reasoning"}, exclude_none=True)
    if request.response_format:
        changes["answer_form"] = request.answer_form
    if wanted := request.max_output_tokens:
        most = min(wanted, agent.limits.max_output_tokens or wanted)
        changes["limits"] = agent.limits.model_copy(update={"max_output_tokens": most})
    return agent.model_copy(update=changes)


def _check(agent: AgentSpec, wanted: dict[str, Any], model: ModelSpec | None) -> None:
    """What the model does not take would have no effect; who asks for it is told so."""
    for name in sorted(wanted):
        if model and not model.takes(name):
            why = f"The model behind {agent.name!r} does not take {name!r}."
            raise InvalidRequest(why, name, "unsupported_parameter")
