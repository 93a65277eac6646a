"""Messages as clients send them, with what they bring along: texts, images, documents."""

import re
from base64 import b64decode
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator

from stepagent.api.body import FORMS, Body
from stepagent.errors import InvalidRequest
from stepagent.messages import AssistantMessage, AttachedFile, UserMessage


class TextPart(Body):
    type: Literal["text"]
    text: str


class RefusalPart(Body):
    """What an assistant said in place of an answer."""

    type: Literal["refusal"]
    refusal: str


_IMAGE = r"^(https://|data:image/)"
_DOCUMENT = r"^data:(text/[a-z.+-]+|application/(json|xml|yaml))(;charset=utf-8)?;base64,"


def _like(pattern: str, otherwise: str) -> AfterValidator:
    """A text like a pattern; `otherwise` says what is wanted in place of any other, which a pattern does not."""

    def check(given: str) -> str:
        if not re.match(pattern, given):
            raise ValueError(otherwise)
        return given

    return AfterValidator(check)


ImageAddress = Annotated[
    str,
    _like(_IMAGE, "an image is an https address, or a data URL such as data:image/png;base64,…"),
    Field(json_schema_extra={"pattern": _IMAGE}),
]
FileData = Annotated[
    str,
    _like(_DOCUMENT, "a file is a text document as a data URL in base64, such as data:text/plain;base64,…"),
    Field(json_schema_extra={"pattern": _DOCUMENT}),
]


class ImageUrl(Body):
    url: ImageAddress
    detail: Literal["auto", "low", "high"] = "auto"


class ImagePart(Body):
    type: Literal["image_url"]
    image_url: ImageUrl


class FileContent(Body):
    """A text document as a data URL in base64."""

    filename: str = Field(min_length=1, max_length=255)
    file_data: FileData

    @property
    def text(self) -> str:
        return b64decode(self.file_data.partition(",")[2], validate=True).decode("utf-8", "replace")


class FilePart(Body):
    type: Literal["file"]
    file: FileContent


Part = Annotated[TextPart | RefusalPart | ImagePart | FilePart, Field(discriminator="type")]
Content = Annotated[
    Annotated[str, Tag(FORMS[0])] | Annotated[list[Part], Tag(FORMS[1])],
    Discriminator(lambda content: FORMS[isinstance(content, list)]),
]


class ChatMessage(Body):
    """One message. Replies are taken as clients of OpenAI's keep them, with the fields that say nothing."""

    role: Literal["system", "developer", "user", "assistant"]
    content: Content
    name: str | None = None
    refusal: str = ""
    reasoning_content: str | None = None
    tool_calls: list[Any] = Field([], max_length=0)
    annotations: list[Any] = Field([], max_length=0)

    @model_validator(mode="before")
    @classmethod
    def _says_something(cls, said: Any) -> Any:
        """A refusal alone stands in the place of content."""
        refuses = isinstance(said, dict) and said.get("refusal") and said.get("content") is None
        return {**said, "content": ""} if refuses else said

    @property
    def text(self) -> str:
        texts = [part.text for part in self.parts if isinstance(part, TextPart)]
        refusals = [part.refusal for part in self.parts if isinstance(part, RefusalPart)]
        return "\n".join([*texts, *refusals]) or self.refusal

    @property
    def parts(self) -> list[Part]:
        return [TextPart(type="text", text=self.content)] if isinstance(self.content, str) else self.content

    @property
    def attached(self) -> list[ImagePart | FilePart]:
        """What came along beside text."""
        return [part for part in self.parts if isinstance(part, ImagePart | FilePart)]

    @property
    def ignored(self) -> set[str]:
        """Names of what is taken and has no effect: who speaks, and how closely an image is looked at."""
        closely = {part.image_url.detail for part in self.parts if isinstance(part, ImagePart)} - {"auto"}
        without_effect = {"messages.name": self.name, "messages.content.image_url.detail": closely}
        return {name for name, given in without_effect.items() if given}

    def as_said(self) -> UserMessage | AssistantMessage:
        """What a person or an assistant said, with what came along.

        Raises:
            InvalidRequest: a file is not the base64 that it says it is.
        """
        if self.role == "assistant":
            return AssistantMessage(text=self.text)
        images = tuple(part.image_url.url for part in self.parts if isinstance(part, ImagePart))
        return UserMessage(text=self.text, images=images, files=self._files())

    def _files(self) -> tuple[AttachedFile, ...]:
        files = [part.file for part in self.parts if isinstance(part, FilePart)]
        try:
            return tuple(AttachedFile(name=file.filename, text=file.text) for file in files)
        except ValueError as error:
            raise InvalidRequest("A file's data is not base64.", "messages") from error
