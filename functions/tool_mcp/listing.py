"""A server's list of tools, made fit for the record and for models: it is written by strangers. Pure."""

import json
import unicodedata
from collections.abc import Collection, Iterable
from typing import Any

import mcp_types as types
from jsonschema import Draft202012Validator, SchemaError

from stepagent.llm.fragments import mended
from stepagent.llm.references import written_out
from stepagent.llm.schema import in_order
from stepagent.llm.schema_parts import Schema, with_parts, without
from stepagent.mcp_tools import ListedTool
from stepagent.observe import logger

MAX_TOOLS = 128  # what OpenAI takes in one request
MAX_LISTING_BYTES = 250_000  # a run keeps a copy, and a model reads it in every turn
MAX_SCHEMA_BYTES = 32_000
MAX_DESCRIPTION_CHARS = 4_000
_MAX_NAME_CHARS = 128
_MAX_LEVELS = 64
_LOGGED = 20
_HIDDEN = frozenset({"Cc", "Cf", "Co", "Cs"})  # controls, invisible and private characters: a person sees none of them
_SHOWN = frozenset("\n\t\u200c\u200d")  # but these belong to text: the last two to Persian and to emoji


def cleaned(tools: Iterable[types.Tool], only: Collection[str] | None) -> tuple[ListedTool, ...]:
    """The tools that can be offered, in the server's order; what is left out, and why, is logged.

    Each name counts once, in its first place. Schemas have their references written out and lose private words; theirs
    and the list's sizes are bounded. `pattern` becomes part of a description: it is a program, for a matcher that some
    inputs occupy for ever, and the server will check what it gets.
    """
    kept: dict[str, ListedTool] = {}
    left_out: list[str] = []
    room_bytes = MAX_LISTING_BYTES
    for tool in tools:
        if only is not None and tool.name not in only:
            continue
        try:
            listed = _listed(tool, kept)
            room_bytes -= len(listed.model_dump_json().encode())
        except ValueError as error:
            left_out.append(f"{tool.name[:_MAX_NAME_CHARS]}: {error}")
            continue
        if room_bytes < 0 or len(kept) == MAX_TOOLS:
            left_out.append(f"{listed.name} and what follows: the list is full")
            break
        kept[listed.name] = listed
    left_out += [f"{name}: the server does not have it" for name in sorted(set(only or ()) - set(kept))]
    if left_out:
        logger.warning("tools of an mcp server left out", extra={"tools": left_out[:_LOGGED], "count": len(left_out)})
    return tuple(kept.values())


def _listed(tool: types.Tool, known: Collection[str]) -> ListedTool:
    """The tool as it is offered.

    Raises:
        ValueError: it cannot be.
    """
    if not 0 < len(tool.name) <= _MAX_NAME_CHARS or not tool.name.isprintable() or tool.name != tool.name.strip():
        raise ValueError("its name has no, too many or unprintable characters")
    if tool.name in known:
        raise ValueError("another tool has its name")
    hints = tool.annotations or types.ToolAnnotations()
    return ListedTool(
        name=tool.name,
        description=_shown(tool.description or tool.title or "", MAX_DESCRIPTION_CHARS),
        parameters=_parameters(tool.input_schema),
        read_only=hints.read_only_hint is True,
        idempotent=hints.idempotent_hint is True,
        destructive=hints.destructive_hint is True,
    )


def _parameters(schema: Any) -> Schema:
    if _levels(schema) > _MAX_LEVELS:
        raise ValueError("its schema is nested too deep")
    parameters: Schema = _readable(in_order(written_out(schema)))
    if (size := len(json.dumps(parameters, ensure_ascii=False).encode("utf-8", "replace"))) > MAX_SCHEMA_BYTES:
        raise ValueError(f"its schema has more than {MAX_SCHEMA_BYTES} bytes: {size}")
    try:
        Draft202012Validator.check_schema(parameters)
    except SchemaError as error:
        raise ValueError("its schema is none") from error
    return parameters


def _readable(schema: Any) -> Any:
    """The schema with clean words for the model, and without patterns."""
    if not isinstance(schema, dict):
        return schema
    readable = with_parts(without(schema, "pattern", "patternProperties"), _readable)
    if "patternProperties" in schema:  # what it takes is taken under any name
        readable = {**without(readable, "unevaluatedProperties"), "additionalProperties": True}
    words = {"title": schema.get("title"), "description": _described(schema)}
    shown = {word: _shown(text, MAX_DESCRIPTION_CHARS) for word, text in words.items() if isinstance(text, str)}
    return {**without(readable, "title", "description"), **shown}


def _described(schema: Schema) -> Any:
    description, pattern = schema.get("description"), schema.get("pattern")
    return f"{description or ''} (pattern: {pattern})".lstrip() if isinstance(pattern, str) else description


def _shown(text: str, limit_chars: int) -> str:
    """Text that shows a model nothing that it hides from a person."""
    shown = "".join(each for each in mended(text) if each in _SHOWN or unicodedata.category(each) not in _HIDDEN)
    return shown if len(shown) <= limit_chars else f"{shown[: limit_chars - 1]}…"


def _levels(value: Any) -> int:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(_levels, parts), default=0)
