"""The model's server: the script's reply, or what goes wrong in its place."""

from typing import Any

from tests.scripted_model import ScriptedModel
from tests.scripted_replies import Answer, Fault
from tests.soak.faults import Faults
from tests.soak.script import BrokenConversation, label_of, reply_to


def make_model(faults: Faults, broken: list[str]) -> ScriptedModel:
    """A server that notes each conversation which no provider would take, and refuses it as one does."""

    def answer(request: dict[str, Any]) -> Answer:
        try:
            reply = reply_to(request, faults.seed)
        except BrokenConversation as error:
            broken.append(f"{error}: {str(request['messages'])[:500]}")
            return Fault(400)
        return faults.disturb(label_of(request), _turn(request), reply)

    return ScriptedModel(default=answer)


def _turn(request: dict[str, Any]) -> str:
    """What tells the turns of all conversations apart: who was asked last, and how much was said by then."""
    messages = request["messages"]
    said = next(message["content"] for message in reversed(messages) if message["role"] == "user")
    first = next(message["content"] for message in messages if message["role"] == "user")
    return f"{first}/{said}/{len(messages)}"
