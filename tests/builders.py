"""Runs, tools, calls and replies with whatever a test does not care about filled in, and a model that gives them."""

from datetime import UTC, datetime, timedelta
from typing import Any

from stepagent.agents import AgentSpec, Limits
from stepagent.interactions import Interaction
from stepagent.llm.reply import ModelRequest, Reply, RequestedCall
from stepagent.messages import CallId
from stepagent.questions import Question, TextQuestion
from stepagent.runs import Call, CallResult, CallStatus, Principal, Run, RunId
from stepagent.tool_specs import ToolSpec
from stepagent.usage import Usage

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
RUN_ID = RunId("run_abc_1")
OWNER = Principal("ann")
SEARCH_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"q": {"type": "string"}, "count": {"type": "integer"}},
    "required": ["q"],
    "additionalProperties": False,
}


class ListedModel:
    """Gives or raises its replies one after the other and keeps what it was asked. Stands for `Ask`."""

    def __init__(self, *replies: Reply | Exception) -> None:
        self.asked: list[ModelRequest] = []
        self._replies = list(replies)

    def __call__(self, request: ModelRequest) -> Reply:
        self.asked.append(request)
        reply = self._replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply


def a_tool(name: str = "search", **changes: Any) -> ToolSpec:
    row = {"name": name, "description": "Searches.", "kind": "lambda", "target": f"tool_{name}"}
    return ToolSpec.model_validate({**row, "parameters": SEARCH_SCHEMA, **changes})


def a_run(*tools: ToolSpec, limits: Limits | None = None, **changes: Any) -> Run:
    """A run of an agent with these tools, or with `search`."""
    offered = tools or (a_tool(),)
    agent = AgentSpec(
        name="helper",
        instructions="Be helpful.",
        tools=tuple(tool.name for tool in offered),
        limits=limits or Limits(),
    )
    values = {"run_id": RUN_ID, "session_id": "s", "owner": OWNER, "agent": agent, "tools": offered, "created_at": NOON}
    return Run.model_validate(values | changes)


def a_call(position: int = 0, turn: int = 1, **changes: Any) -> Call:
    """A call of the first run's turn."""
    values = {"call_id": f"call_1_{turn}_{position}", "name": "search", "arguments": {"q": "x"}}
    return Call.model_validate(values | changes)


def a_done_call(text: str, position: int = 0, turn: int = 1, is_error: bool = False, **changes: Any) -> Call:
    result = CallResult(text=text, is_error=is_error, finished_at=NOON)
    return a_call(position, turn, status=CallStatus.DONE, result=result, **changes)


def an_interaction(question: Question | None = None, **changes: Any) -> Interaction:
    """A question of the first run's call, which waits for an hour."""
    values = {
        "interaction_id": "q1w2e3r4t5y6u7i8o9p0as",
        "run_id": RUN_ID,
        "call_id": "call_1_1_0",
        "tool": "ask",
        "owner": OWNER,
        "question": question or TextQuestion(description="Which colour?"),
        "created_at": NOON,
        "expires_at": NOON + timedelta(hours=1),
    }
    return Interaction.model_validate(values | changes)


def said(text: str = "", *calls: tuple[str, str], finish_reason: str = "", **changes: Any) -> Reply:
    """A reply with this text and these calls, each (name, arguments as text); 10 tokens in, 5 out."""
    wanted = tuple(RequestedCall(f"p{index}", name, arguments) for index, (name, arguments) in enumerate(calls))
    reason = finish_reason or ("tool_calls" if calls else "stop")
    return Reply(text, "", wanted, reason, Usage(input_tokens=10, output_tokens=5))._replace(**changes)


def call_id(position: int, turn: int = 1) -> CallId:
    return CallId(f"call_1_{turn}_{position}")


class Heard:
    """What a listener was told. Stands for `Listener`."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.reasonings: list[str] = []

    def text(self, fragment: str) -> None:
        self.texts.append(fragment)

    def reasoning(self, fragment: str) -> None:
        self.reasonings.append(fragment)
