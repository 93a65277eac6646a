"""What OpenAI's newer clients send: the Responses API, as far as an agent can be asked by it."""

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from stepagent.agents import ReasoningEffort
from stepagent.api.body import FORMS, Body, OpenBody, read_body
from stepagent.api.chat_fields import (
    JsonObjectFormat,
    JsonSchema,
    JsonSchemaFormat,
    Metadata,
    ResponseFormat,
    TextFormat,
)
from stepagent.api.content import ChatMessage, ImageAddress, ImagePart, ImageUrl, Part, RefusalPart, TextPart
from stepagent.api.requests import ChatRequest, WantedStrategy, check_said


class InputText(Body):
    type: Literal["input_text"]
    text: str

    def as_chat(self) -> TextPart:
        return TextPart(type="text", text=self.text)


class InputImage(Body):
    type: Literal["input_image"]
    image_url: ImageAddress
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
        if isinstance(self.content, str):
            return ChatMessage(role=self.role, content=self.content)
        parts: list[Part] = [part.as_chat() for part in self.content]
        return ChatMessage(role=self.role, content=parts)


class SchemaFormat(JsonSchema):
    """JSON as a schema has it, which stands one level higher here than in chat completions."""

    type: Literal["json_schema"]

    def as_chat(self) -> JsonSchemaFormat:
        schema = self.model_dump(by_alias=True, exclude={"type"})
        return JsonSchemaFormat.model_validate({"type": self.type, "json_schema": schema})


class TextConfig(Body):
    """`verbosity` is the model's own."""

    format: Annotated[TextFormat | JsonObjectFormat | SchemaFormat, Field(discriminator="type")] = TextFormat(
        type="text"
    )
    verbosity: Literal["medium"] = "medium"

    def as_chat(self) -> ResponseFormat:
        return self.format.as_chat() if isinstance(self.format, SchemaFormat) else self.format


class ReasoningConfig(Body):
    effort: ReasoningEffort | None = None


class ResponseStreamOptions(Body):
    include_obfuscation: Literal[False] = False


class ResponseRequest(OpenBody):
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
    text: TextConfig = TextConfig()
    reasoning: ReasoningConfig = ReasoningConfig()
    metadata: Metadata = Field({})
    user: str = Field("", max_length=512)
    strategy: WantedStrategy = None
    # What follows is taken where it says what is so anyhow.
    store: Literal[True] = True
    background: Literal[False] = False
    include: list[str] = Field([], max_length=0)
    parallel_tool_calls: Literal[True] = True
    service_tier: Literal["auto", "default"] = "auto"
    tool_choice: Literal["auto"] = "auto"
    tools: list[Any] = Field([], max_length=0)
    top_logprobs: int = Field(0, le=0, ge=0)
    truncation: Literal["auto", "disabled"] = "disabled"
    stream_options: ResponseStreamOptions | None = None
    # What follows is OpenAI's alone.
    access_programs: None = None
    background_options: None = None
    context_management: None = None
    conversation: None = None
    image: None = None
    max_tool_calls: None = None
    moderation: None = None
    prompt: None = None

    @property
    def ignored(self) -> list[str]:
        """Names of fields without effect: those that nobody knows, and how closely an image is to be looked at."""
        said = [] if isinstance(self.input, str) else self.input
        parts = [part for message in said if not isinstance(message.content, str) for part in message.content]
        closely = any(isinstance(part, InputImage) and part.detail != "auto" for part in parts)
        return [*super().ignored, *(["input.content.detail"] if closely else [])]

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
            response_format=self.text.as_chat(),
            reasoning_effort=self.reasoning.effort,
            strategy=self.strategy,
            max_completion_tokens=self.max_output_tokens,
            metadata=self.metadata,
            user=self.user,
        )


_NEUTRAL = frozenset(
    {
        *("store", "background", "include", "parallel_tool_calls", "service_tier"),
        *("tool_choice", "tools", "top_logprobs", "truncation", "stream_options"),
        *("access_programs", "background_options", "context_management", "conversation", "image"),
        *("max_tool_calls", "moderation", "prompt"),
    }
)


def read_response_request(body: bytes) -> ResponseRequest:
    """Reads and checks the body of a response. Raises as `read_chat_request` does."""
    request = read_body(body, ResponseRequest, _NEUTRAL)
    check_said(request.as_chat(None).messages, "input")
    return request
