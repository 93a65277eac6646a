"""What a person or a tool attached, as models see it."""

import re
from collections.abc import Sequence
from typing import Any

from stepagent.messages import ToolMessage, UserMessage

_RESULT_IMAGES = "The images of the results above:"


def user_content(message: UserMessage, *, vision: bool, header: bool) -> str | list[dict[str, Any]]:
    """A person's message: text, or text and image parts where the model may see them."""
    if not vision or not message.images:
        return plain_text(message, header=header)
    return _parts(f"{_header(message)}{message.text}" if header else message.text, message.images)


def plain_text(message: UserMessage, *, header: bool) -> str:
    """A person's message as text alone. It tells of what came along, so that a model does not speak as if nothing had.

    With `header`, for an agent that can read files, the numbers of documents and images stand before the text.
    """
    if header:
        return f"{_header(message)}{message.text}"
    return f"{message.text}\n[images that you cannot see: {len(message.images)}]" if message.images else message.text


def _header(message: UserMessage) -> str:
    if not message.files and not message.images:
        return ""
    return f"[Attached: documents: {len(message.files)}, images: {len(message.images)}]\n\n"


def with_quoted_files(message: UserMessage) -> UserMessage:
    """The message with its documents as text, for an agent that cannot read files itself.

    They stand with the words they came with, so that they are cut with them when the conversation grows too long.
    """
    quoted = [f"Document {file.name!r}:\n{fenced(file.text)}" for file in message.files]
    return message.model_copy(update={"text": "\n\n".join([*quoted, message.text]), "files": ()})


def fenced(text: str) -> str:
    """Text of others in a fence that nothing inside can close, so that it cannot pass for what stands outside."""
    runs = re.findall("`+", text)
    fence = "`" * max(3, 1 + max(map(len, runs), default=0))
    return f"{fence}\n{text}\n{fence}"


def result_images(messages: Sequence[ToolMessage]) -> dict[str, Any] | None:
    """The images of a reply's results as one message of the user, which follows them: no tool message takes images."""
    images = tuple(image for message in messages for image in message.images)
    return {"role": "user", "content": _parts(_RESULT_IMAGES, images)} if images else None


def _parts(text: str, images: Sequence[str]) -> list[dict[str, Any]]:
    pictures = [{"type": "image_url", "image_url": {"url": url}} for url in images]
    return [*([{"type": "text", "text": text}] if text else []), *pictures]
