"""Puts a reply together from the chunks of a stream."""

import codecs
from collections.abc import Iterable
from typing import Any

from openai.types.chat import ChatCompletionChunk
from openai.types.chat.chat_completion_chunk import ChoiceDelta, ChoiceDeltaToolCall
from openai.types.completion_usage import CompletionUsage

from stepagent.errors import ModelReplyUnusable
from stepagent.llm.reply import Listener, Reply, RequestedCall
from stepagent.runs import Usage


class _Text:
    """Text that arrives in pieces. A character whose halves came apart is whole again; half of one becomes U+FFFD."""

    def __init__(self) -> None:
        self.whole = ""
        self._decoder = codecs.getincrementaldecoder("utf-16-le")("replace")

    def add(self, fragment: str, *, final: bool = False) -> str:
        """Adds a piece and returns what of it, and of what was held back, can be shown."""
        shown = self._decoder.decode(fragment.encode("utf-16-le", "surrogatepass"), final)
        self.whole += shown
        return shown


class _OpenCall:
    """A call of which the pieces still arrive."""

    def __init__(self, provider_id: str, index: int) -> None:
        self.provider_id = provider_id
        self.index = index
        self.name = ""
        self.arguments = ""

    def add(self, piece: ChoiceDeltaToolCall) -> None:
        if piece.function is None:
            return
        name = piece.function.name or ""
        if name != self.name:  # some servers repeat the whole name in every chunk, others cut it
            self.name += name
        self.arguments += piece.function.arguments or ""

    def closed(self) -> RequestedCall:
        return RequestedCall(*(_Text().add(text, final=True) for text in (self.provider_id, self.name, self.arguments)))


class Assembly:
    """Collects one reply and tells the listener what a person may see at once."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._text = _Text()
        self._reasoning = _Text()
        self._calls: list[_OpenCall] = []
        self._finish_reason = ""
        self._usage = Usage(complete=False)
        self.visible = False  # whether a person has seen a part of it

    def read(self, chunks: Iterable[ChatCompletionChunk]) -> Reply:
        """Reads to the end.

        Raises:
            ModelReplyUnusable: the stream holds an error or what is no reply, or ended before the reply did.
        """
        for chunk in chunks:
            try:
                self._read(chunk)
            except (AttributeError, TypeError) as error:  # the client checks no types: a field may hold anything
                raise ModelReplyUnusable("The model's stream has a form that is not known.") from error
        self._say("", final=True)
        self._reason("", final=True)
        if not self._finish_reason:
            raise ModelReplyUnusable("The model's stream ended before its reply was complete.")
        calls = tuple(call.closed() for call in self._calls)
        return Reply(self._text.whole, self._reasoning.whole, calls, self._finish_reason, self._usage)

    def _read(self, chunk: ChatCompletionChunk) -> None:
        if error := (chunk.model_extra or {}).get("error"):
            raise ModelReplyUnusable(f"The model's stream broke with an error: {_words(error)}")
        if chunk.usage:
            self._usage = count(chunk.usage)
        for choice in chunk.choices or []:
            if not choice.index:  # some servers leave it out; others give more choices than were asked for
                self._add(choice.delta)
                self._finish_reason = choice.finish_reason or self._finish_reason

    def _add(self, delta: ChoiceDelta | None) -> None:
        if delta is None:
            return
        reasoning = (delta.model_extra or {}).get("reasoning_content")
        self._reason(reasoning if isinstance(reasoning, str) else "")
        self._say((delta.content or "") + (delta.refusal or ""))  # a refusal is what the model has to say
        for piece in delta.tool_calls or []:
            self._call_of(piece).add(piece)

    def _say(self, fragment: str, *, final: bool = False) -> None:
        if shown := self._text.add(fragment, final=final):
            self.visible = True
            self._listener.text(shown)

    def _reason(self, fragment: str, *, final: bool = False) -> None:
        if shown := self._reasoning.add(fragment, final=final):
            self._listener.reasoning(shown)

    def _call_of(self, piece: ChoiceDeltaToolCall) -> _OpenCall:
        """The call that a piece belongs to. A new id with a name begins a new call even where the index repeats."""
        same_index = [call for call in self._calls if call.index == piece.index]
        if same_id := [call for call in same_index if piece.id and call.provider_id == piece.id]:
            return same_id[-1]
        if same_index and not (piece.id and piece.function and piece.function.name):
            same_index[-1].provider_id = same_index[-1].provider_id or piece.id or ""
            return same_index[-1]
        call = _OpenCall(piece.id or "", piece.index)
        self._calls.append(call)
        return call


def count(usage: CompletionUsage) -> Usage:
    """The provider's own count, in our words."""
    prompt, completion = usage.prompt_tokens_details, usage.completion_tokens_details
    return Usage(
        input_tokens=usage.prompt_tokens or 0,
        output_tokens=usage.completion_tokens or 0,
        cached_tokens=(prompt.cached_tokens if prompt else 0) or 0,
        reasoning_tokens=(completion.reasoning_tokens if completion else 0) or 0,
    )


def _words(error: Any) -> str:
    return str(error.get("message", error) if isinstance(error, dict) else error)[:300]
