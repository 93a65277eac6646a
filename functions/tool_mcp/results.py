"""What a tool of an MCP server returned, as a value for the model. Pure."""

import json
from binascii import a2b_base64
from collections.abc import Iterator, Sequence
from typing import Any

import mcp_types as types

from stepagent.errors import ToolError
from stepagent.web.redaction import Redaction

MAX_IMAGE_BYTES = 5_000_000  # the smallest of what providers take in one image
_SHOWN_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})  # what all of them take
_NO_REASON = "The tool failed and did not say why."

Part = dict[str, Any]


def value_of(result: types.CallToolResult, redaction: Redaction) -> Any:
    """Text, JSON, or a list of text and image parts, without secrets.

    Structured content is left out where the text says the same, as the protocol asks of servers.

    Raises:
        ToolError: the tool says that it failed; the message is its own.
    """
    parts = [part for block in result.content for part in _parts(block)]
    texts = [part["text"] for part in parts if part["type"] == "text"]
    if result.is_error:
        reason = "\n".join(filter(None, texts)) or _as_json(result.structured_content) or _NO_REASON
        raise ToolError(redaction.text(reason))
    structured = result.structured_content
    if structured is None or any(_says(text, structured) for text in texts):
        return redaction.value(_joined(parts))
    return redaction.value(_joined([*parts, _text(_as_json(structured))]) if parts else structured)


def _parts(block: types.ContentBlock) -> Iterator[Part]:
    """A block of a result as text, or as text and an image."""
    match block:
        case types.TextContent():
            yield _text(block.text)
        case types.ImageContent() | types.AudioContent():
            yield from _media(block.mime_type, block.data)
        case types.ResourceLink():
            yield _text(
                " ".join(filter(None, (f"[resource {block.uri}]", block.title or block.name, block.description)))
            )
        case types.EmbeddedResource(resource=types.TextResourceContents() as resource):
            yield _text(f"[resource {resource.uri}]\n{resource.text}")
        case types.EmbeddedResource(resource=types.BlobResourceContents() as resource):
            yield _text(f"[resource {resource.uri}]")
            yield from _media(resource.mime_type or "", resource.blob)


def _media(mime_type: str, data: str) -> Iterator[Part]:
    """An image that models can see; of all else, what it is."""
    kind, size = mime_type.partition(";")[0].strip().lower(), len(data) * 3 // 4
    if kind in _SHOWN_IMAGES and size <= MAX_IMAGE_BYTES and _is_base64(data):
        yield {"type": "image_url", "image_url": {"url": f"data:{kind};base64,{data}"}}
    else:
        yield _text(f"[{kind[:100] or 'binary'}, {size} bytes, not shown]")


def _is_base64(data: str) -> bool:
    """One that providers refuse would end the run."""
    try:
        return bool(a2b_base64(data, strict_mode=True))
    except ValueError:
        return False


def _says(text: str, structured: Any) -> bool:
    """Whether a text is this value as JSON, or that of its `result`, as servers wrap what is no object."""
    result = structured.get("result", structured) if isinstance(structured, dict) else structured
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return bool(text == result)
    return said in (structured, result)


def _joined(parts: Sequence[Part]) -> Any:
    """One text where all is text."""
    if all(part["type"] == "text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return list(parts)


def _text(text: str) -> Part:
    return {"type": "text", "text": text}


def _as_json(value: Any) -> str:
    return "" if value is None else json.dumps(value, ensure_ascii=False)
