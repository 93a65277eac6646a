"""What is said in a session, in one neutral form that every calling mode renders for its provider."""

from typing import Annotated, Literal, NewType

from pydantic import Field, TypeAdapter

from stepagent.models import Frozen

CallId = NewType("CallId", str)


class ToolCall(Frozen):
    """One tool call that the model asked for.

    `arguments` is the JSON text as the model wrote it where that text is valid JSON, so that big integers and the
    order of keys survive a replay; otherwise `{}`. `provider_id` is the provider's own id, kept for the record.
    """

    call_id: CallId
    name: str
    arguments: str = "{}"
    provider_id: str = ""


class UserMessage(Frozen):
    role: Literal["user"] = "user"
    text: str


class AssistantMessage(Frozen):
    """A reply: text, calls or both. `reasoning` is kept for the record and is not an answer."""

    role: Literal["assistant"] = "assistant"
    text: str = ""
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()


class ToolMessage(Frozen):
    """The one result of one call, as text for the model."""

    role: Literal["tool"] = "tool"
    call_id: CallId
    name: str
    text: str
    is_error: bool = False


Message = Annotated[UserMessage | AssistantMessage | ToolMessage, Field(discriminator="role")]
message_adapter: TypeAdapter[Message] = TypeAdapter(Message)
