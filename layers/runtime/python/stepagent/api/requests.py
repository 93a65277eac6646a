"""What clients send, checked; refusals name the field."""

from base64 import b64decode
from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AliasChoices, BaseModel, ConfigDict, Discriminator, Field, Tag, ValidationError, model_validator
from pydantic_core import from_json

from stepagent.errors import BodyTooLarge, InvalidRequest
from stepagent.messages import AssistantMessage, AttachedFile, Message, UserMessage

MAX_BODY_BYTES = 256 * 1024
MAX_FILES = 20
MAX_KEY_CHARS = 255  # of an idempotency key


class Body(BaseModel):
    """Unknown fields are refused by name: a client must not believe that we do what we ignore."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, content: Any) -> Any:
        """A null stands for a field that is not given: clients send many of those."""
        return (
            {name: value for name, value in content.items() if value is not None}
            if isinstance(content, dict)
            else content
        )


BodyT = TypeVar("BodyT", bound=Body)


class TextPart(Body):
    type: Literal["text"]
    text: str


FORMS = ("a text", "a list of parts")  # of content; pydantic puts them into the place of an error
_ANSWERS = ("a text", "an object")


class ImageUrl(Body):
    url: str = Field(pattern=r"^(https://|data:image/)")
    detail: Literal["auto", "low", "high"] = "auto"


class ImagePart(Body):
    type: Literal["image_url"]
    image_url: ImageUrl


class FileContent(Body):
    """A text document as a data URL in base64."""

    filename: str = Field(min_length=1, max_length=255)
    file_data: str = Field(pattern=r"^data:(text/[a-z.+-]+|application/(json|xml|yaml))(;charset=utf-8)?;base64,")

    @property
    def text(self) -> str:
        return b64decode(self.file_data.partition(",")[2], validate=True).decode("utf-8", "replace")


class FilePart(Body):
    type: Literal["file"]
    file: FileContent


Part = Annotated[TextPart | ImagePart | FilePart, Field(discriminator="type")]
Content = Annotated[
    Annotated[str, Tag(FORMS[0])] | Annotated[list[Part], Tag(FORMS[1])],
    Discriminator(lambda content: FORMS[isinstance(content, list)]),
]


class ChatMessage(Body):
    """One message. `reasoning_content` comes back from clients that send our replies as they got them."""

    role: Literal["system", "developer", "user", "assistant"]
    content: Content
    name: str | None = None
    reasoning_content: str | None = None

    @property
    def text(self) -> str:
        return "\n".join(part.text for part in self.parts if isinstance(part, TextPart))

    @property
    def parts(self) -> list[Part]:
        return [TextPart(type="text", text=self.content)] if isinstance(self.content, str) else self.content

    def as_user(self) -> UserMessage:
        """What a person said, with what came along.

        Raises:
            InvalidRequest: a file is not the base64 that it says it is.
        """
        try:
            files = [
                AttachedFile(name=part.file.filename, text=part.file.text)
                for part in self.parts
                if isinstance(part, FilePart)
            ]
        except ValueError as error:
            raise InvalidRequest("A file's data is not base64.", "messages") from error
        images = tuple(part.image_url.url for part in self.parts if isinstance(part, ImagePart))
        return UserMessage(text=self.text, images=images, files=tuple(files))


class StreamOptions(Body):
    include_usage: bool = False


class ChatRequest(Body):
    """A chat completion as OpenAI clients ask for it; `model` names an agent."""

    model: str
    messages: list[ChatMessage] = Field(min_length=1)
    stream: bool = False
    stream_options: StreamOptions | None = None
    temperature: float | None = Field(None, ge=0, le=2)
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    n: int = Field(1, ge=1, le=1)
    user: str | None = None
    session_id: str | None = Field(
        None, min_length=1, max_length=128, validation_alias=AliasChoices("session_id", "chatId")
    )
    detail: bool = False

    @property
    def system(self) -> str:
        return "\n\n".join(message.text for message in self.messages if message.role in ("system", "developer"))

    @property
    def max_output_tokens(self) -> int | None:
        return self.max_completion_tokens or self.max_tokens

    def conversation(self) -> list[Message]:
        """What is new. A session knows what was said before, so only what follows the last reply counts there."""
        said = [message for message in self.messages if message.role in ("user", "assistant")]
        if self.session_id:
            replies = [index for index, message in enumerate(said) if message.role == "assistant"]
            said = said[replies[-1] + 1 if replies else 0 :]
        return [
            message.as_user() if message.role == "user" else AssistantMessage(text=message.text) for message in said
        ]


class JobRequest(Body):
    """A run that nobody waits for, as a message of a queue asks for it.

    `message_id` is the sender's own id of the job: what bears it, in whatever message, is the same job.
    """

    agent: str
    input: str
    session_id: str | None = Field(None, min_length=1, max_length=128)
    message_id: str | None = Field(
        None, min_length=1, max_length=MAX_KEY_CHARS, validation_alias=AliasChoices("message_id", "id")
    )

    def as_chat(self) -> ChatRequest:
        said = ChatMessage(role="user", content=self.input)
        return ChatRequest(model=self.agent, messages=[said], session_id=self.session_id)


class AnswerRequest(Body):
    """A person's answer to an interaction: a text, or an object for a form or an approval."""

    answer: Annotated[
        Annotated[str, Field(min_length=1), Tag(_ANSWERS[0])] | Annotated[dict[str, Any], Tag(_ANSWERS[1])],
        Discriminator(lambda answer: _ANSWERS[isinstance(answer, dict)]),
    ]


def read_chat_request(body: bytes) -> ChatRequest:
    """Reads and checks the body of a chat completion.

    Raises:
        BodyTooLarge: more than 256 KB.
        InvalidRequest: anything else that is wrong; the message and `param` name the field.
    """
    request = read_body(body, ChatRequest)
    check_said(request.messages, "messages")
    return request


def check_said(messages: Sequence[ChatMessage], param: str) -> None:
    """Checks what no field can know by itself; `param` names where the messages stand.

    Raises:
        InvalidRequest: nobody asks anything, or a message brings too much along.
    """
    if messages[-1].role != "user" or not messages[-1].text.strip():
        raise InvalidRequest("The last message must come from the user and must not be blank.", param)
    if any(sum(not isinstance(part, TextPart) for part in message.parts) > MAX_FILES for message in messages):
        raise InvalidRequest(f"A message may bring at most {MAX_FILES} files and images.", param)


def read_job_request(body: bytes) -> JobRequest:
    """Reads and checks the body of a queue's message. Raises as `read_chat_request` does."""
    job = read_body(body, JobRequest)
    if not job.input.strip():
        raise InvalidRequest("'input' must not be blank.", "input")
    return job


def read_idempotency_key(header: str | None) -> str:
    """The value of the header `Idempotency-Key`, "" where there is none.

    Raises:
        InvalidRequest: it is empty, too long, or not printable ASCII.
    """
    if header is None:
        return ""
    if not header or len(header) > MAX_KEY_CHARS or not (header.isascii() and header.isprintable()):
        why = f"An idempotency key has 1 to {MAX_KEY_CHARS} printable ASCII characters."
        raise InvalidRequest(why, "Idempotency-Key")
    return header


def read_answer_request(body: bytes) -> AnswerRequest:
    """Reads and checks the body of an answer. Raises as `read_chat_request` does."""
    return read_body(body, AnswerRequest)


def read_body(body: bytes, kind: type[BodyT]) -> BodyT:
    """Reads and checks a body of any kind. Raises as `read_chat_request` does."""
    if len(body) > MAX_BODY_BYTES:
        raise BodyTooLarge(f"The body has {len(body)} bytes; at most {MAX_BODY_BYTES} are taken.")
    try:
        content = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise InvalidRequest(f"The body is not valid JSON: {error}.") from error
    if not isinstance(content, dict):
        raise InvalidRequest("The body must be a JSON object.")
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        raise _refusal(error.errors(include_url=False, include_input=False)[0]) from error


def _refusal(problem: Any) -> InvalidRequest:
    param = ".".join(str(part) for part in problem["loc"] if part not in (*FORMS, *_ANSWERS))
    if problem["type"] == "extra_forbidden":
        return InvalidRequest(f"{param!r} is not supported.", param, "unsupported_parameter")
    return InvalidRequest(f"{param!r}: {problem['msg']}.", param)
