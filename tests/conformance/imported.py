"""Messages in OpenAI's form as stored ones: what a session of ours would hold had it said them."""

from collections.abc import Sequence
from typing import Any

from stepagent.clock import now
from stepagent.messages import AssistantMessage, CallId, Message, ToolCall, ToolMessage, UserMessage
from stepagent.runs import Call, CallKey, CallResult, CallStatus
from tests.conformance.cases import Json

_CALL_FIELDS = ("id", "type", "function", "index")


def imported(raw: Sequence[Json], vendor: str) -> tuple[str, list[Message | Call]]:
    """The system text and the entries in order. A result belongs to the nearest reply before it that has its id."""
    system, entries, still_open = list[str](), list[Message | Call](), list[tuple[str, Call]]()
    for turn, message in enumerate(raw, 1):
        match message["role"]:
            case "system" | "developer":
                system.append(text_of(message.get("content")))
            case "user":
                entries.append(UserMessage(text=text_of(message.get("content")), images=images_of(message)))
            case "assistant":
                reply, calls = _reply(message, turn, vendor)
                entries += [reply, *(call for _, call in calls)]
                still_open = [*calls, *still_open]
            case "tool" | "function":
                wire_id = str(message.get("tool_call_id", message.get("name", "")))
                text = text_of(message.get("content"))
                if (found := next((each for each in still_open if each[0] == wire_id), None)) is None:
                    entries.append(ToolMessage(call_id=CallId(wire_id), name=str(message.get("name", "")), text=text))
                else:
                    still_open.remove(found)
                    entries[entries.index(found[1])] = _done(found[1], text)
    return "\n\n".join(system), entries


def _reply(message: Json, turn: int, vendor: str) -> tuple[AssistantMessage, list[tuple[str, Call]]]:
    wanted = list(message.get("tool_calls") or [])
    if not wanted and (legacy := message.get("function_call")):
        wanted = [{"id": legacy["name"], "function": legacy}]
    said, calls = list[ToolCall](), list[tuple[str, Call]]()
    for position, each in enumerate(wanted):
        call_id, function = CallKey(1, turn, position).call_id, each["function"]
        extra = {name: value for name, value in each.items() if name not in _CALL_FIELDS}
        arguments = function.get("arguments") or "{}"
        wire_id = str(each.get("id") or "")
        said.append(
            ToolCall(call_id=call_id, name=function["name"], arguments=arguments, provider_id=wire_id, extra=extra)
        )
        calls.append((wire_id, Call(call_id=call_id, name=function["name"], arguments={})))
    reasoning = str(message.get("reasoning_content") or message.get("reasoning") or "")
    text = text_of(message.get("content"))
    return AssistantMessage(text=text, reasoning=reasoning, calls=tuple(said), vendor=vendor), calls


def _done(call: Call, text: str) -> Call:
    return call.model_copy(update={"status": CallStatus.DONE, "result": CallResult(text=text, finished_at=now())})


def text_of(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if part.get("type") == "text")
    return str(content or "")


def images_of(message: Json) -> tuple[str, ...]:
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    return tuple(part["image_url"]["url"] for part in parts if part.get("type") == "image_url")
