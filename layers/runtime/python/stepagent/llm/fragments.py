"""Text that arrives in pieces."""

import codecs
import re

_HALF = re.compile(r"[\ud800-\udfff]")


class Fragments:
    """Joins pieces. A character whose halves came in two pieces is whole again; half of one becomes U+FFFD."""

    def __init__(self) -> None:
        self.whole = ""
        self._decoder = codecs.getincrementaldecoder("utf-16-le")("replace")

    def add(self, fragment: str, *, final: bool = False) -> str:
        """Adds a piece and returns what of it, and of what was held back, can be shown."""
        shown = self._decoder.decode(fragment.encode("utf-16-le", "surrogatepass"), final)
        self.whole += shown
        return shown


def mended(text: str) -> str:
    """The text with its halves of characters joined or replaced, so that it encodes as UTF-8."""
    return Fragments().add(text, final=True) if _HALF.search(text) else text
