"""Reads the events of a provider's stream from its bytes."""

import json
import time
from collections.abc import Iterable, Iterator
from typing import Any

from stepagent.errors import ModelBusy

_DONE = b"[DONE]"
_BOM = b"\xef\xbb\xbf"
_MAX_LINE_BYTES = 8_000_000


class Events:
    """The data objects of a server-sent event stream, in order. `done` tells whether the provider said that it is over.

    Comments are signs of life but no progress: after `idle_s` seconds without data the stream counts as dead.

    Raises:
        ModelBusy: while iterating: data that is no JSON object, or none for too long; another try may fare better.
    """

    def __init__(self, reads: Iterable[bytes], idle_s: float) -> None:
        self._reads = reads
        self._idle_s = idle_s
        self.done = False

    def __iter__(self) -> Iterator[dict[str, Any]]:
        data: list[bytes] = []
        for read in self._lines():
            line = read.removeprefix(_BOM)  # it may stand before the first event
            if line.startswith(b"data:"):
                data.append(line[5:].removeprefix(b" "))
            elif not line and data:  # a blank line ends an event
                event, data = b"\n".join(data).strip(), []
                if event == _DONE:
                    self.done = True
                    return
                if event:  # some servers show with an empty one that they are alive
                    yield _object(event)

    def _lines(self) -> Iterator[bytes]:
        """Lines by the standard's three line ends, and no other character's: text may hold U+2028."""
        progress_at, rest = time.monotonic(), b""
        for read in self._reads:
            held = b"\r" if read.endswith(b"\r") else b""  # half a line end, perhaps
            text = (rest + read).removesuffix(held).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
            *lines, rest = text.split(b"\n")
            rest += held
            if len(rest) > _MAX_LINE_BYTES:
                raise ModelBusy(f"The model's stream holds a line of more than {_MAX_LINE_BYTES} bytes.")
            if any(line.startswith(b"data:") and line[5:].strip() for line in lines):
                progress_at = time.monotonic()
            elif time.monotonic() - progress_at > self._idle_s:
                raise ModelBusy(f"The model's stream brought no data for {self._idle_s:g} s.")
            yield from lines
        yield rest.removesuffix(b"\r")
        yield b""


def _object(data: bytes) -> dict[str, Any]:
    try:
        content = json.loads(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError) as error:
        raise ModelBusy("The model's stream holds data that is not JSON.") from error
    if not isinstance(content, dict):
        raise ModelBusy("The model's stream holds data that is not an object.")
    return content
