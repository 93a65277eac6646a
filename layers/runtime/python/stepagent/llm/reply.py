"""What goes to a model and what comes back, whatever the mode it is called in."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

from stepagent.answer_form import AnswerForm
from stepagent.messages import Message
from stepagent.tool_specs import ToolSpec
from stepagent.usage import Usage

ModeName = Literal["tool_choice", "function_call", "prompt_call"]


class Correction(NamedTuple):
    """A reply that broke the protocol, as it was said, and what the model is told about it."""

    said: str
    rule: str


class ModelRequest(NamedTuple):
    """What the model is asked. Without tools none is offered. Images are shown where `vision` and the model allow it;
    `file_header` tells how many documents came along, for an agent that can read them itself. `closing` is said to the
    model after the conversation, and is no part of it: the last question stays a person's. `tool_choice` is what the
    reply must call: any tool (`required`), the tool of that name, or what the model likes (`auto`). `form` is that of
    the text; it is a field of the request only where no tool is offered, and `system` says it in words."""

    system: str
    messages: Sequence[Message]
    tools: Sequence[ToolSpec]
    correction: Correction | None = None
    vision: bool = False
    file_header: bool = False
    closing: str = ""
    tool_choice: str = "auto"
    form: AnswerForm | None = None


class RequestedCall(NamedTuple):
    """A call as the model wrote it. `arguments` is its raw text, which may be no JSON at all.

    `extra` holds what the provider put beside the call and wants back unchanged, such as a signature.
    """

    provider_id: str
    name: str
    arguments: str
    extra: Mapping[str, Any] = {}


class Origin(NamedTuple):
    """Where a reply came from and how, for whoever operates it. `first_token_at` is a moment of `time.monotonic`."""

    model: str = ""  # its row in the catalog
    provider: str = ""
    requested: str = ""  # what its provider calls it
    responded: str = ""  # what it calls itself
    mode: ModeName | None = None
    first_token_at: float | None = None


class Reply(NamedTuple):
    """One whole reply. `finish_reason` is the provider's word, `""` where it gave none.

    `refusal` is what the model says in place of an answer; `correction` is set where the reply broke the protocol;
    `vendor` names whose server it came from.
    """

    text: str
    reasoning: str
    calls: tuple[RequestedCall, ...]
    finish_reason: str
    usage: Usage
    refusal: str = ""
    correction: Correction | None = None
    vendor: str = ""
    origin: Origin = Origin()

    @property
    def is_empty(self) -> bool:
        """No text, no call and no refusal. Reasoning alone is not an answer."""
        return not (self.text.strip() or self.calls or self.refusal.strip() or self.correction)


class Listener(Protocol):
    """Hears a reply while it arrives."""

    def text(self, fragment: str) -> None: ...

    def reasoning(self, fragment: str) -> None: ...


class Said(NamedTuple):
    """What the text of a reply came to. `text` is exactly what the listener heard."""

    text: str
    reasoning: str
    call: RequestedCall | None = None
    correction: Correction | None = None


class TextReader(Protocol):
    """Reads the text of one reply, piece by piece, and lets the listener hear what is for people, at once."""

    def feed(self, fragment: str) -> None: ...

    def close(self) -> Said:
        """The end of the reply: says what is still held back, and what it all came to."""
        ...


class Mode(Protocol):
    """One way to call a model."""

    name: ModeName

    def render(self, request: ModelRequest, aliases: Mapping[str, str]) -> dict[str, Any]:
        """The request fields that carry conversation and tools. `aliases` gives each tool's name on the wire."""
        ...

    def reader(self, request: ModelRequest, listener: Listener) -> TextReader: ...
