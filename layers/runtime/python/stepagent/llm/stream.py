"""Puts a reply together from the chunks of a stream, whatever liberties its server takes with them."""

import json
import time
from collections.abc import Mapping
from typing import Any

from pydantic_core import from_json, to_json

from stepagent.errors import ModelReplyUnusable
from stepagent.llm.fragments import Fragments, mended
from stepagent.llm.reply import Listener, Origin, Reply, RequestedCall, TextReader
from stepagent.usage import Usage

Chunk = Mapping[str, Any]  # as parsed: servers send fields of other types than they should, and null for absent

_REASON_CHARS = 40  # words such as "tool_calls"
_MODEL_CHARS = 100
_CALL_FIELDS = frozenset({"index", "id", "type", "function"})
_MAX_TOKENS = 10**12  # more is no count


class _OpenCall:
    """A call of which the pieces still arrive."""

    def __init__(self, index: Any) -> None:
        self.index = index
        self.provider_id = ""
        self.name = ""
        self.arguments = ""
        self.extra: dict[str, Any] = {}

    def add(self, piece: Chunk) -> None:
        function = _mapping(piece.get("function"))
        self.provider_id = self.provider_id or _text(piece.get("id"))
        name = _text(function.get("name"))
        if name and name != self.name and not (self.name and self.arguments):
            self.name += name  # a name comes whole, repeated with every piece, or cut in two before the arguments
        self.arguments += _arguments(function.get("arguments"))
        self.extra |= {key: value for key, value in piece.items() if key not in _CALL_FIELDS}

    def closed(self) -> RequestedCall:
        return RequestedCall(mended(self.provider_id), mended(self.name), mended(self.arguments), _kept(self.extra))


class Assembly:
    """Collects one reply, chunk by chunk."""

    def __init__(self, reader: TextReader, listener: Listener) -> None:
        self._reader = reader
        self._listener = listener
        self._calls: list[_OpenCall] = []
        self._legacy: _OpenCall | None = None
        self._text = Fragments()
        self._refusal = ""
        self._reasoning = Fragments()
        self.finish_reason = ""
        self.usage = Usage(complete=False)
        self._origin = Origin()

    def add(self, chunk: Chunk) -> None:
        """Takes in a chunk of a stream, or a whole completion from a server that does not stream.

        Raises:
            ModelReplyUnusable: it has a form that no reply has; to pass it over would lose what it says.
        """
        if isinstance(counted := chunk.get("usage"), Mapping):
            self.usage = count(counted)
        if not self._origin.responded:
            self._origin = self._origin._replace(responded=mended(_text(chunk.get("model")))[:_MODEL_CHARS])
        for choice in map(_object, _listed(chunk.get("choices"))):
            if choice.get("index") in (0, None):
                self._add(_object(choice.get("delta") or choice.get("message")))
                if self._origin.first_token_at is None and (self._has_begun or self._reasoning.whole):
                    self._origin = self._origin._replace(first_token_at=time.monotonic())
                self.finish_reason = mended(_text(choice.get("finish_reason")))[:_REASON_CHARS] or self.finish_reason

    def reply(self) -> Reply:
        """The whole reply; what the reader still holds back is heard now."""
        self._say("", final=True)
        self._reason("", final=True)
        said = self._reader.close()
        calls = [call.closed() for call in self._opened]
        return Reply(
            text=said.text,
            reasoning=self._reasoning.whole + said.reasoning,
            calls=tuple([said.call] if said.call and not calls else calls),
            finish_reason=self.finish_reason,
            usage=self.usage,
            refusal=mended(self._refusal),
            correction=said.correction,
            origin=self._origin,
        )

    def may_be_whole(self) -> bool:
        """Whether nothing speaks against it: something was said, and the arguments of every call are JSON."""
        return self._has_begun and all(_is_json(call.arguments) for call in self._opened)

    @property
    def _has_begun(self) -> bool:
        return bool(self._text.whole or self._refusal or self._opened)

    @property
    def _opened(self) -> list[_OpenCall]:
        """The calls; a legacy one only where there are no others: some servers send one call in both forms."""
        return self._calls or ([self._legacy] if self._legacy else [])

    def _add(self, delta: Chunk) -> None:
        for name in ("reasoning_content", "reasoning"):  # one or the other, by vendor
            if fragment := _text(delta.get(name)):
                self._reason(fragment)
                break
        self._say(_content(delta.get("content")))
        self._refusal += _text(delta.get("refusal"))
        for piece in map(_object, _listed(delta.get("tool_calls"))):
            self._call_of(piece).add(piece)
        if isinstance(function := delta.get("function_call"), Mapping):
            self._legacy = self._legacy or _OpenCall(0)
            self._legacy.add({"function": function})

    def _say(self, fragment: str, *, final: bool = False) -> None:
        if whole := self._text.add(fragment, final=final):
            self._reader.feed(whole)

    def _reason(self, fragment: str, *, final: bool = False) -> None:
        if whole := self._reasoning.add(fragment, final=final):
            self._listener.reasoning(whole)

    def _call_of(self, piece: Chunk) -> _OpenCall:
        """The call that a piece belongs to, by id, index and name together.

        A new id with a name begins a new call even where the index repeats. A piece without an index goes on with the
        last call, unless it begins one.
        """
        index, provider_id = piece.get("index"), _text(piece.get("id"))
        name = _text(_mapping(piece.get("function")).get("name"))
        same = [call for call in self._calls if index is None or call.index == index]
        if provider_id and (known := [call for call in self._calls if call.provider_id == provider_id]):
            same = known if index is None or known[-1].index == index else same
        begins = bool(name) and bool(provider_id) and (not same or same[-1].provider_id not in ("", provider_id))
        if index is None and not provider_id and name and same and same[-1].arguments:
            begins = True  # whole calls without ids or indices, one after the other
        if same and not begins:
            return same[-1]
        self._calls.append(_OpenCall(index))
        return self._calls[-1]


def count(usage: Mapping[str, Any]) -> Usage:
    """The provider's own count, in our words."""
    prompt, completion = _mapping(usage.get("prompt_tokens_details")), _mapping(usage.get("completion_tokens_details"))
    return Usage(
        input_tokens=_number(usage.get("prompt_tokens")),
        output_tokens=_number(usage.get("completion_tokens")),
        cached_tokens=_number(prompt.get("cached_tokens") or usage.get("prompt_cache_hit_tokens")),
        reasoning_tokens=_number(completion.get("reasoning_tokens")),
    )


def _content(content: Any) -> str:
    """Text, also where a server sends it in parts."""
    if isinstance(content, str):
        return content
    return "".join(_text(part.get("text")) for part in map(_object, _listed(content)))


def _arguments(arguments: Any) -> str:
    """The text of arguments; some servers send the object itself."""
    return json.dumps(arguments, ensure_ascii=False) if isinstance(arguments, Mapping | list) else _text(arguments)


def _text(value: Any) -> str:
    """A string; anything else counts as absent."""
    return value if isinstance(value, str) else ""


def _mapping(value: Any) -> Chunk:
    return value if isinstance(value, Mapping) else {}


def _object(value: Any) -> Chunk:
    """An object; null counts as an empty one."""
    if value is not None and not isinstance(value, Mapping):
        raise ModelReplyUnusable("The model's stream has a form that is not known.")
    return value or {}


def _listed(value: Any) -> list[Any]:
    """A list; null counts as an empty one."""
    if value is not None and not isinstance(value, list):
        raise ModelReplyUnusable("The model's stream has a form that is not known.")
    return value or []


def _kept(extra: Chunk) -> dict[str, Any]:
    """What the provider put beside a call, where the record can hold it and give it back."""
    deeper = [[[extra]]]  # where it stands in the record; what is nested too deep could never be read again
    try:
        [[[kept]]] = from_json(to_json(deeper, inf_nan_mode="null"))
    except ValueError:
        return {}
    return dict(kept)


def _number(value: Any) -> int:
    return int(value) if isinstance(value, int | float) and 0 < value < _MAX_TOKENS else 0


def _is_json(text: str) -> bool:
    try:
        json.loads(text or "{}")
    except (ValueError, RecursionError):
        return False
    return True
