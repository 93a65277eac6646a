"""OpenAI's shapes: chunks, completions, models and errors."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from stepagent.agents import AgentSpec
from stepagent.errors import ModelFiltered, NotFound, RequestError, StepAgentError
from stepagent.llm.registry import ModelSpec, modes_of
from stepagent.runs import Failure, Run, StopReason
from stepagent.usage import Usage

DONE = b"data: [DONE]\n\n"
KEEP_ALIVE = b": keep-alive\n\n"
# OpenAI's clients repeat by themselves what was answered with 5xx: that would begin another run, with its effects.
NOT_AGAIN = {"X-Should-Retry": "false"}


def sse(data: Any, event: str = "") -> bytes:
    """One server-sent event. JSON in ASCII escapes whatever any reader takes for a line end."""
    name = f"event: {event}\n" if event else ""
    return f"{name}data: {json.dumps(data, separators=(',', ':'))}\n\n".encode()


def envelope(run: Run, kind: str) -> dict[str, Any]:
    """What all chunks of one reply share."""
    created = int(run.created_at.timestamp())
    return {"id": f"chatcmpl-{run.run_id}", "object": kind, "created": created, "model": run.agent.name}


def chunk(run: Run, delta: Mapping[str, Any], finish_reason: str | None = None, **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
    return {**envelope(run, "chat.completion.chunk"), "choices": [choice], **more}


def completion(run: Run, text: str, reasoning: str, refusal: str = "", **more: Any) -> dict[str, Any]:
    content = None if refusal and not text else text
    message: dict[str, Any] = {"role": "assistant", "content": content, "refusal": refusal or None}
    if reasoning:
        message["reasoning_content"] = reasoning
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish_reason(run)}
    return {**envelope(run, "chat.completion"), "choices": [choice], "usage": usage(run.usage), **more}


def unfinished(run: Run) -> dict[str, Any]:
    """The completion for a request that ends before its run does: without choices, and where the answer will be."""
    note = (
        f"Run {run.run_id} goes on. The same request with the same Idempotency-Key joins it; "
        f"GET /v1/runs/{run.run_id} tells how it stands."
    )
    stepagent = {**extension(run), "message": note}
    return {**envelope(run, "chat.completion"), "choices": [], "usage": usage(run.usage), "stepagent": stepagent}


def is_filtered(run: Run) -> bool:
    """Whether the provider's content filter stopped it, which clients know as the end of a reply, not as an error."""
    return run.failure is not None and run.failure.code == ModelFiltered.code


def finish_reason(run: Run) -> str:
    """OpenAI's word for how a run ended, or paused. Calls are made here, so `tool_calls` never is one."""
    if is_filtered(run):
        return "content_filter"
    return "length" if run.stop_reason is StopReason.OUTPUT_LIMIT else "stop"


def usage(counted: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": counted.input_tokens,
        "completion_tokens": counted.output_tokens,
        "total_tokens": counted.input_tokens + counted.output_tokens,
        "prompt_tokens_details": {"cached_tokens": counted.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": counted.reasoning_tokens},
    }


def extension(run: Run) -> dict[str, Any]:
    """Our own field beside OpenAI's: which run this is and how it stands."""
    return {
        "run_id": run.run_id,
        "session_id": run.session_id,
        "status": run.status,
        "stop_reason": run.stop_reason,
        "turns": run.turns,
    }


def told(ignored: Sequence[str]) -> dict[str, Any]:
    """Fields of the request that nobody knows: whoever sent them reads, in `stepagent`, that they had no effect."""
    return {"ignored": ignored} if ignored else {}


def cost_usd(counted: Usage) -> float | None:
    """US dollars, None where a price is not known."""
    return None if counted.cost_usd is None else float(counted.cost_usd)


def models(agents: Mapping[str, AgentSpec], rows: Mapping[str, ModelSpec]) -> dict[str, Any]:
    """The list of models, which are agents here, each with what the model behind it can."""
    return {"object": "list", "data": [model(agent, rows) for agent in agents.values()]}


def model(agent: AgentSpec, rows: Mapping[str, ModelSpec]) -> dict[str, Any]:
    """An agent as clients know a model, with what the model behind it can."""
    behind = rows.get(agent.model)
    shown = {
        "id": agent.name,
        "object": "model",
        "created": 0,
        "owned_by": "stepagent",
        "description": agent.description,
    }
    if behind is None:
        return shown
    capabilities = {
        "modes": [agent.mode] if agent.mode else modes_of(behind),
        "vision": behind.vision and agent.vision,
        "reasoning": behind.reasoning,
        "context_tokens": behind.context_tokens,
        "tools": [use.shown_name for use in agent.tools],
    }
    return {**shown, "capabilities": capabilities}


_SHOWN_OF_A_RUN = {
    *("run_id", "session_id", "versions", "metadata", "user", "created_at", "parent", "top", "depth"),
    *("status", "ended_at", "stop_reason", "failure", "answer", "turns", "executions", "resumed_at"),
    *("reply_to", "plan"),
}


def run_view(run: Run) -> dict[str, Any]:
    """A run as its owner may see it. What a run is given for itself alone stays out of sight until it is named here."""
    shown = run.model_dump(mode="json", include=_SHOWN_OF_A_RUN)
    spent = {"usage": usage(run.usage), "cost_usd": cost_usd(run.usage)}
    working = {"strategy": run.strategy, "strategy_reason": run.chosen.why if run.chosen else None}
    return {"object": "run", "agent": run.agent.name, **shown, **spent, **working, "interactions": run.pending}


def interactive(asked: Mapping[str, Any]) -> dict[str, Any]:
    """A question in the words of chat clients that show choices and forms, from the event that tells of it."""
    params: dict[str, Any] = {"description": asked["description"]}
    match asked["type"]:
        case "choice":
            kind, more = "userSelect", {"userSelectOptions": asked["options"]}
        case "form":
            kind, more = "userInput", {"inputForm": [_input(field) for field in asked["fields"]]}
        case "approval":
            kind, more = "approval", {name: asked[name] for name in ("tool", "arguments", "bound", "digest")}
        case "plan":
            kind, more = "plan", {"plan": asked["plan"]}
        case _:
            kind, more = "text", {}
    return {"interactive": {"type": kind, "params": params | more, "id": asked["interaction_id"]}}


_INPUTS = {  # by a field's type: how it is shown, and the type of its value
    "text": ("input", "string"),
    "number": ("numberInput", "number"),
    "integer": ("numberInput", "number"),
    "boolean": ("switch", "boolean"),
    "date": ("timePointSelect", "string"),
    "select": ("select", "string"),
    "multiselect": ("multipleSelect", "arrayString"),
}


def _input(field: Mapping[str, Any]) -> dict[str, Any]:
    shown_as, value_type = _INPUTS[field["type"]]
    options = [{"label": option["value"], "value": option["key"]} for option in field.get("options", ())]
    bounds = {} if options else {"min": field.get("min"), "max": field.get("max")}  # of a value, not of how many
    terms = {"defaultValue": field["default"], "maxLength": field.get("max_length"), **bounds, "list": options or None}
    return {
        "type": shown_as,
        "key": field["key"],
        "label": field["label"] or field["key"],
        "valueType": value_type,
        "required": field["required"],
        **{name: value for name, value in terms.items() if value is not None},
    }


def error_body(message: str, kind: str, code: str, param: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def refusal(error: RequestError) -> dict[str, Any]:
    return error_body(error.message, "invalid_request_error", error.error_code, error.param)


def failure(why: Failure | None) -> dict[str, Any]:
    """The error object of a run that failed."""
    known = why or Failure(code="internal_error", message="The run failed.")
    return error_body(known.message, "run_failed", known.code)


def cancelled() -> dict[str, Any]:
    """The error object of a run that was cancelled."""
    return error_body("The run was cancelled.", "run_cancelled", "cancelled")


def stream_broke(run: Run) -> dict[str, Any]:
    """The error object for a stream that cannot go on, while its run does."""
    message = f"The stream broke. Run {run.run_id} does not depend on it: GET /v1/runs/{run.run_id}/events goes on."
    return error_body(message, "server_error", "stream_broke") | {"stepagent": extension(run)}


def nothing_here() -> dict[str, Any]:
    """The error object for a path that leads nowhere."""
    return refusal(NotFound("There is nothing at this path."))


def still_running(run: Run) -> dict[str, Any]:
    """The error object for a request that ends before its run does."""
    message = f"Run {run.run_id} still goes on: GET /v1/runs/{run.run_id} tells how it ends."
    return error_body(message, "timeout", "run_still_going_on")


def defect(error: Exception) -> dict[str, Any]:
    """The error object for what the caller cannot mend. Its reason is in the log, not in the reply."""
    code = error.code if isinstance(error, StepAgentError) else StepAgentError.code
    return error_body("The request failed; the server's log says why.", "server_error", code)
