"""What clients send, checked; refusals name the field."""

from base64 import b64encode
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import (
    AliasChoices,
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    model_validator,
)

from stepagent.agents import ReasoningEffort, Strategy
from stepagent.answer_form import AnswerForm
from stepagent.api.body import FORMS, Body, read_body
from stepagent.api.chat_fields import Metadata, NotOffered, ResponseFormat, StopText, StreamOptions
from stepagent.api.content import ChatMessage, FileContent, FilePart, TextPart
from stepagent.errors import InvalidRequest
from stepagent.messages import Message
from stepagent.replies.reply_to import ReplyTo

MAX_FILES = 20
MAX_KEY_CHARS = 255  # of an idempotency key

WantedStrategy = Annotated[Strategy | None, Field(description="How the agent works on it, in place of its own way.")]


class ChatRequest(NotOffered):
    """A chat completion as OpenAI clients ask for it; `model` names an agent."""

    model: str
    messages: list[ChatMessage] = Field(min_length=1)
    stream: bool = False
    stream_options: StreamOptions | None = None
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, ge=0, le=1)
    presence_penalty: float | None = Field(None, ge=-2, le=2)
    frequency_penalty: float | None = Field(None, ge=-2, le=2)
    seed: int | None = Field(None, ge=-(2**63), lt=2**63)
    stop: Annotated[list[StopText], BeforeValidator(lambda given: [given] if isinstance(given, str) else given)] = (
        Field([], max_length=4)
    )
    reasoning_effort: ReasoningEffort | None = None
    strategy: WantedStrategy = None
    reasoning: Literal["cot"] | None = Field(None, description="Has the agent think each reply through before it.")
    response_format: ResponseFormat | None = None
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    metadata: Metadata = Field(default_factory=dict)
    user: str = Field("", max_length=512, description="Whom the client asks for; kept with the run and shown with it.")
    session_id: str | None = Field(
        None, min_length=1, max_length=128, validation_alias=AliasChoices("session_id", "chatId")
    )
    interaction_id: str | None = Field(None, min_length=1, max_length=64)
    reply_to: ReplyTo | None = Field(None, description="Where the result is sent when the run has ended.")
    detail: bool = False

    @model_validator(mode="before")
    @classmethod
    def _names_its_session_once(cls, content: Any) -> Any:
        if isinstance(content, dict) and content.get("session_id") is not None and content.get("chatId") is not None:
            raise InvalidRequest("'session_id' and 'chatId' are two names of one field.", "chatId")
        return content

    @property
    def system(self) -> str:
        return "\n\n".join(message.text for message in self.messages if message.role in ("system", "developer"))

    @property
    def max_output_tokens(self) -> int | None:
        return self.max_completion_tokens or self.max_tokens

    @property
    def answer_form(self) -> AnswerForm | None:
        return self.response_format.form if self.response_format else None

    @property
    def ignored(self) -> list[str]:
        """Names of fields without effect: those that nobody knows, and those of messages that we do not heed."""
        return [*super().ignored, *sorted(set().union(*(message.ignored for message in self.messages)))]

    def conversation(self) -> list[Message]:
        """What is new. A session knows what was said before, so only what follows the last reply counts there.

        Raises:
            InvalidRequest: a file is not the base64 that it says it is.
        """
        said = [message for message in self.messages if message.role in ("user", "assistant")]
        if self.session_id:
            replies = [index for index, message in enumerate(said) if message.role == "assistant"]
            said = said[replies[-1] + 1 if replies else 0 :]
        return [message.as_said() for message in said]


_NOT_OFFERED = frozenset(NotOffered.model_fields)


class JobFile(Body):
    """A document that comes along with a job, as text."""

    name: str = Field(min_length=1, max_length=255)
    text: str

    def as_part(self) -> FilePart:
        data = f"data:text/plain;base64,{b64encode(self.text.encode()).decode()}"
        return FilePart(type="file", file=FileContent(filename=self.name, file_data=data))


class JobRequest(Body):
    """A run that nobody waits for, as a message of a queue asks for it.

    `message_id` is the sender's own id of the job: what bears it, in whatever message, is the same job.
    """

    agent: str
    input: str
    files: list[JobFile] = Field([], max_length=MAX_FILES)
    metadata: Metadata = Field(default_factory=dict)
    session_id: str | None = Field(None, min_length=1, max_length=128)
    strategy: WantedStrategy = None
    reply_to: ReplyTo | None = None
    message_id: str | None = Field(
        None, min_length=1, max_length=MAX_KEY_CHARS, validation_alias=AliasChoices("message_id", "id")
    )

    def as_chat(self, session_id: str | None = None) -> ChatRequest:
        """The same as a chat, in its own session, or else in the one given."""
        files = [file.as_part() for file in self.files]
        said = ChatMessage(
            role="user", content=[TextPart(type="text", text=self.input), *files] if files else self.input
        )
        session = self.session_id or session_id
        return ChatRequest(
            model=self.agent,
            messages=[said],
            session_id=session,
            strategy=self.strategy,
            metadata=self.metadata,
            reply_to=self.reply_to,
        )


class AnswerRequest(Body):
    """A person's answer to an interaction: a text, or an object for a form or an approval."""

    answer: Annotated[
        Annotated[str, Field(min_length=1), Tag(FORMS[0])] | Annotated[dict[str, Any], Tag(FORMS[2])],
        Discriminator(lambda answer: FORMS[2 * isinstance(answer, dict)]),
    ]


def read_chat_request(body: bytes) -> ChatRequest:
    """Reads and checks the body of a chat completion.

    Raises:
        BodyTooLarge: more than 4 MB.
        InvalidRequest: anything else that is wrong; the message and `param` name the field.
    """
    request = read_body(body, ChatRequest, _NOT_OFFERED)
    check_said(request.messages, "messages")
    return request


def check_said(messages: Sequence[ChatMessage], param: str) -> None:
    """Checks what no field can know by itself; `param` names where the messages stand.

    Raises:
        InvalidRequest: nobody asks anything, or a message brings too much along.
    """
    if messages[-1].role != "user" or not (messages[-1].text.strip() or messages[-1].attached):
        raise InvalidRequest("The last message must come from the user and must not be blank.", param)
    if any(len(message.attached) > MAX_FILES for message in messages):
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
