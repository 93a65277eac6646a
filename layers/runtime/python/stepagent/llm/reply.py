"""What comes back from a model, whatever the mode it was called in."""

from typing import NamedTuple, Protocol

from stepagent.runs import Usage


class RequestedCall(NamedTuple):
    """A call as the model wrote it. `arguments` is its raw text, which may be no JSON at all."""

    provider_id: str
    name: str
    arguments: str


class Reply(NamedTuple):
    """One whole reply. `finish_reason` is the provider's word, `""` where it gave none."""

    text: str
    reasoning: str
    calls: tuple[RequestedCall, ...]
    finish_reason: str
    usage: Usage

    @property
    def is_empty(self) -> bool:
        """No text and no call. Reasoning alone is not an answer."""
        return not self.text.strip() and not self.calls


class Listener(Protocol):
    """Hears a reply while it arrives."""

    def text(self, fragment: str) -> None: ...

    def reasoning(self, fragment: str) -> None: ...
