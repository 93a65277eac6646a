"""What is said in a session, in one neutral form that every calling mode renders for its provider."""

from typing import Annotated, Any, Literal, NewType

from pydantic import Field, TypeAdapter

from stepagent.models import Frozen

CallId = NewType("CallId", str)


class ToolCall(Frozen):
    """One tool call that the model asked for.

    `arguments` is the JSON text as the model wrote it where that text is valid JSON, so that big integers and the
    order of keys survive a replay; otherwise `{}`. `provider_id` is the provider's own id. `extra` is what the
    provider put beside the call, such as a signature, and wants back unchanged.
    """

    call_id: CallId
    name: str
    arguments: str = "{}"
    provider_id: str = ""
    extra: dict[str, Any] = Field(default_factory=dict)


class AttachedFile(Frozen):
    """A document that a person attached, as text."""

    name: str
    text: str


class UserMessage(Frozen):
    """What a person said, with what came along. `images` are URLs, `data:` or `https:`."""

    role: Literal["user"] = "user"
    text: str
    images: tuple[str, ...] = ()
    files: tuple[AttachedFile, ...] = ()


class AssistantMessage(Frozen):
    """A reply: text, calls or both. `reasoning` is kept for the record and is not an answer.

    `vendor` names whose server gave it: what providers put beside a call means something to that one only.
    """

    role: Literal["assistant"] = "assistant"
    text: str = ""
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    vendor: str = ""


class ToolMessage(Frozen):
    """The one result of one call, as text for the model."""

    role: Literal["tool"] = "tool"
    call_id: CallId
    name: str
    text: str
    is_error: bool = False
    images: tuple[str, ...] = ()


Message = Annotated[UserMessage | AssistantMessage | ToolMessage, Field(discriminator="role")]
message_adapter: TypeAdapter[Message] = TypeAdapter(Message)
