"""What the model says: it has no memory, so that all it needs stands in the request. It checks what it is told, too."""

import json
import re
from typing import Any

from tests.plans import a_step, written
from tests.scripted_replies import Reply
from tests.soak.tasks import Part, Task, answer_of, known_in, make_task

Json = dict[str, Any]

_LABEL = re.compile(r"\bn(\d+)\b")
_PLAN, _ANSWER = "Make the plan.", "Answer the person now"
_CHARGE = re.compile(r"\bcharge n\d+\.([a-z])\b")  # what a step, or another agent, is told


class BrokenConversation(ValueError):
    """A conversation in which a call has no result, or more than one, or a result no call."""


def label_of(request: Json) -> int:
    """The number of the task that a request belongs to."""
    found = _LABEL.search(" ".join(_texts(request, "user")))
    if found is None:
        raise BrokenConversation("no message of a user names a task")
    return int(found[1])


def reply_to(request: Json, seed: int) -> Reply:
    """The next reply of a conversation.

    Raises:
        BrokenConversation: no provider would take it, or its results are not of this task.
    """
    _check_pairs(request)
    task = make_task(seed, label_of(request))
    asked = _texts(request, "user")
    if _PLAN in asked[-1]:
        steps = [a_step(part.name) for part in task.parts]
        told = [step.model_copy(update={"description": f"charge {task.label}.{step.id}"}) for step in steps]
        return Reply(text=written([told[0], told[1].model_copy(update={"depends_on": ("a",)})]))
    known = _known(request, task)
    if _ANSWER in asked[-1]:
        return Reply(text=answer_of(task, known))
    if single := _CHARGE.search(asked[-1]):
        return _single(request, task, next(part for part in task.parts if part.name == single[1]))
    return _next(request, task, known)


def _single(request: Json, task: Task, part: Part) -> Reply:
    """A step of a plan, or another agent: one charge, then what came of it."""
    last = _texts({"messages": request["messages"][-1:]}, request["messages"][-1]["role"])[0]
    tried = "An earlier try at this step failed" in last
    if request["messages"][-1]["role"] != "tool" and not tried:
        return Reply(calls=(("charge", {"value": task.written(part)}),))
    done = part.name in known_in(last.rpartition("An earlier try")[2].replace(_arguments(task, part), ""))
    return Reply(text=task.written(part) if done else "It is unknown whether that was charged.")


def _arguments(task: Task, part: Part) -> str:
    """The arguments of a call, as an earlier try is told: they say nothing of a result."""
    return json.dumps({"value": task.written(part)})


def _next(request: Json, task: Task, known: dict[str, int]) -> Reply:
    """The first two parts at the same time, then the third where there is one, then the answer."""
    turns = sum(message["role"] == "assistant" for message in request["messages"])
    parts = (task.parts[:2], task.parts[2:])[turns] if turns < 2 else ()
    calls = tuple(_call(task, part) for part in parts)
    return Reply(calls=calls) if calls else Reply(text=answer_of(task, known))


def _call(task: Task, part: Part) -> tuple[str, Json]:
    match part.way:
        case "charge" | "look_up":
            return part.way, {"value": task.written(part)}
        case "consult":
            return "consult_soaker", {"task": f"Task {task.label}: charge {task.label}.{part.name}"}
        case "ask":
            return "ask_user", {"question": f"What is {task.label}.{part.name}?"}
        case "step":
            raise AssertionError("a step is no call")


def _known(request: Json, task: Task) -> dict[str, int]:
    """The values in the results. A step's result is not always a tool's, so whatever is not the assistant's counts."""
    texts = [text for role in ("tool", "user") for text in _texts(request, role)]
    others = {label for text in texts for label in re.findall(r"\b(n\d+)\.[a-z]=", text)} - {task.label}
    if others:
        raise BrokenConversation(f"results of {', '.join(sorted(others))} are told to {task.label}")
    return {name: value for text in texts for name, value in known_in(text).items()}


def _check_pairs(request: Json) -> None:
    open_calls: list[str] = []
    for message in request["messages"]:
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_calls:
                raise BrokenConversation(f"{message['tool_call_id']} has a result too many")
            open_calls.remove(message["tool_call_id"])
        elif open_calls:
            break
        open_calls += [call["id"] for call in message.get("tool_calls") or ()]
    if open_calls:
        raise BrokenConversation(f"{', '.join(open_calls)} have no result")


def _texts(request: Json, role: str) -> list[str]:
    return [_text(message["content"]) for message in request["messages"] if message["role"] == role]


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return " ".join(part.get("text", "") for part in content or ())
