"""How long a request may take."""

import time

from stepagent.web.errors import WebTimedOut


class Deadline:
    """The moment at which a request is over, redirects and all, whatever its server still does."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self._seconds = seconds

    def left_s(self) -> float:
        """Seconds that are left.

        Raises:
            WebTimedOut: none are.
        """
        left = self._end - time.monotonic()
        if left <= 0:
            raise self.passed()
        return left

    def passed(self) -> WebTimedOut:
        return WebTimedOut(f"There was no complete answer within {max(self._seconds, 0):.1f} seconds.")
