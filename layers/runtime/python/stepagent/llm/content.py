"""What a person or a tool attached, as models see it."""

from collections.abc import Sequence
from typing import Any

from stepagent.messages import ToolMessage, UserMessage

_RESULT_IMAGES = "The images of the results above:"


def user_content(message: UserMessage, *, vision: bool, header: bool) -> str | list[dict[str, Any]]:
    """A person's message: text, or text and image parts where the model may see them.

    With `header` the text is preceded by the numbers of documents and images.
    """
    text = f"{attachment_header(message)}{message.text}" if header else message.text
    return _parts(text, message.images) if vision and message.images else text


def attachment_header(message: UserMessage) -> str:
    """The two numbers, for an agent that can read files; nothing where nothing is attached."""
    if not message.files and not message.images:
        return ""
    return f"[Attached: documents: {len(message.files)}, images: {len(message.images)}]\n\n"


def quoted_files(messages: Sequence[object]) -> str:
    """The attached documents as system text, for an agent that cannot read files itself."""
    files = [file for message in messages if isinstance(message, UserMessage) for file in message.files]
    quoted = "\n".join(f"<file name={file.name!r}>\n{file.text}\n</file>" for file in files)
    return f"Documents that the person attached:\n{quoted}" if files else ""


def result_images(messages: Sequence[ToolMessage]) -> dict[str, Any] | None:
    """The images of a reply's results as one message of the user, which follows them: no tool message takes images."""
    images = tuple(image for message in messages for image in message.images)
    return {"role": "user", "content": _parts(_RESULT_IMAGES, images)} if images else None


def _parts(text: str, images: Sequence[str]) -> list[dict[str, Any]]:
    pictures = [{"type": "image_url", "image_url": {"url": url}} for url in images]
    return [*([{"type": "text", "text": text}] if text else []), *pictures]
