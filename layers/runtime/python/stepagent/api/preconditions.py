"""Conditions that a client puts on a change, as HTTP has them; a row's ETag is its version."""

from typing import NamedTuple

from stepagent.errors import InvalidRequest, PreconditionFailed
from stepagent.rows import Row, RowKey


class Precondition(NamedTuple):
    """The headers `If-Match` and `If-None-Match`, "" where there is none."""

    if_match: str = ""
    if_none_match: str = ""

    def check(self, key: RowKey, row: Row | None) -> None:
        """Does nothing where the row stands as the client takes for granted. `row` is None where there is none.

        Raises:
            PreconditionFailed: it does not.
            InvalidRequest: If-None-Match names a version, which makes no sense for a change.
        """
        if self.if_none_match not in ("", "*"):
            raise InvalidRequest("If-None-Match takes * only, for a row that must be new.", "If-None-Match")
        if self.if_none_match and row:
            raise PreconditionFailed(f"There is {key} already, in version {row.version}.")
        if self.if_match and (row is None or not {"*", str(row.version)} & self._matching()):
            stands = f"stands in version {row.version}" if row else "does not exist"
            raise PreconditionFailed(f"If-Match does not hold: {key} {stands}.")

    def _matching(self) -> set[str]:
        return {tag.strip().removeprefix("W/").strip('"') for tag in self.if_match.split(",")}
