"""What OpenAI's newer clients send: the Responses API, as far as an agent can be asked by it."""

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from stepagent.api.body import FORMS, Body, read_body
from stepagent.api.chat_fields import Metadata
from stepagent.api.content import ChatMessage, ImagePart, ImageUrl, RefusalPart, TextPart
from stepagent.api.requests import ChatRequest, check_said


class InputText(Body):
    type: Literal["input_text"]
    text: str

    def as_chat(self) -> TextPart:
        return TextPart(type="text", text=self.text)


class InputImage(Body):
    type: Literal["input_image"]
    image_url: str = Field(pattern=r"^(https://|data:image/)")
    detail: Literal["auto", "low", "high"] = "auto"

    def as_chat(self) -> ImagePart:
        return ImagePart(type="image_url", image_url=ImageUrl(url=self.image_url, detail=self.detail))


class OutputText(Body):
    """A part of an earlier reply, sent back as it came."""

    type: Literal["output_text"]
    text: str
    annotations: list[Any] = Field([], max_length=0)
    logprobs: list[Any] = Field([], max_length=0)

    def as_chat(self) -> TextPart:
        return TextPart(type="text", text=self.text)


class OutputRefusal(Body):
    type: Literal["refusal"]
    refusal: str

    def as_chat(self) -> RefusalPart:
        return RefusalPart(type="refusal", refusal=self.refusal)


InputPart = Annotated[InputText | InputImage | OutputText | OutputRefusal, Field(discriminator="type")]


class InputMessage(Body):
    """One message. The id and the status of an earlier reply say nothing here."""

    type: Literal["message"] = "message"
    role: Literal["system", "developer", "user", "assistant"]
    content: Annotated[
        Annotated[str, Tag(FORMS[0])] | Annotated[list[InputPart], Tag(FORMS[1])],
        Discriminator(lambda content: FORMS[isinstance(content, list)]),
    ]
    id: str | None = None
    status: Literal["in_progress", "completed", "incomplete"] | None = None

    def as_chat(self) -> ChatMessage:
        content = self.content if isinstance(self.content, str) else [part.as_chat() for part in self.content]
        return ChatMessage(role=self.role, content=content)


class TextFormat(Body):
    type: Literal["text"] = "text"


class TextConfig(Body):
    format: TextFormat = TextFormat()


class NoReasoning(Body):
    """Clients send the object with nothing in it."""


class ResponseRequest(Body):
    """A response as OpenAI clients ask for it; `model` names an agent, `previous_response_id` the run to go on from."""

    model: str
    input: Annotated[
        Annotated[str, Tag(FORMS[0])] | Annotated[list[InputMessage], Field(min_length=1), Tag(FORMS[1])],
        Discriminator(lambda given: FORMS[isinstance(given, list)]),
    ]
    instructions: str = ""
    stream: bool = False
    previous_response_id: str | None = None
    max_output_tokens: int | None = Field(None, ge=1)
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, ge=0, le=1)
    metadata: Metadata = {}
    user: str = Field("", max_length=512)
    # What follows is taken where it says what is so anyhow.
    store: Literal[True] = True
    background: Literal[False] = False
    include: list[str] = Field([], max_length=0)
    parallel_tool_calls: Literal[True] = True
    reasoning: NoReasoning | None = None
    service_tier: Literal["auto", "default"] = "auto"
    text: TextConfig = TextConfig()
    tool_choice: Literal["auto"] = "auto"
    tools: list[Any] = Field([], max_length=0)
    top_logprobs: int = Field(0, le=0, ge=0)
    truncation: Literal["auto", "disabled"] = "disabled"

    def as_chat(self, session_id: str | None) -> ChatRequest:
        """The same request as a chat completion, in a session."""
        system = [ChatMessage(role="system", content=self.instructions)] if self.instructions else []
        one = [InputMessage(role="user", content=self.input)] if isinstance(self.input, str) else self.input
        return ChatRequest(
            model=self.model,
            messages=[*system, *(message.as_chat() for message in one)],
            session_id=session_id,
            temperature=self.temperature,
            top_p=self.top_p,
            max_completion_tokens=self.max_output_tokens,
            metadata=self.metadata,
            user=self.user,
        )


_NEUTRAL = frozenset(
    {
        *("store", "background", "include", "parallel_tool_calls", "reasoning", "service_tier", "text"),
        *("tool_choice", "tools", "top_logprobs", "truncation"),
    }
)


def read_response_request(body: bytes) -> ResponseRequest:
    """Reads and checks the body of a response. Raises as `read_chat_request` does."""
    request = read_body(body, ResponseRequest, _NEUTRAL)
    check_said(request.as_chat(None).messages, "input")
    return request
