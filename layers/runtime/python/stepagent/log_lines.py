"""How exceptions look in the logs: where they come from, and what they say only where they are ours.

What others' exceptions say may quote what they were given, such as a call's arguments. It is in the record, as the
result of the call or the failure of the run, which only its owner reads.
"""

import traceback
from collections.abc import Iterator
from types import TracebackType

from aws_lambda_powertools.logging.formatter import LambdaPowertoolsFormatter

from stepagent.errors import StepAgentError, ToolError

ExceptionInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


class LineFormatter(LambdaPowertoolsFormatter):
    """Log lines as JSON, without the words of foreign exceptions."""

    def __init__(self) -> None:
        super().__init__(serialize_stacktrace=False)  # that one has the exception's words

    def formatException(self, ei: ExceptionInfo) -> str:  # noqa: N802 (the name that logging calls)
        return "".join(_told(ei[1])) if ei[1] else ""

    def serialize(self, log: dict[str, object]) -> str:  # type: ignore[override]  # it is such a dict
        log.pop("exception_notes", None)  # words of whoever passed it on
        return super().serialize(log)


def _told(error: BaseException) -> Iterator[str]:
    """The exception, with those that led to it, the first one first."""
    earlier = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if earlier:
        yield from _told(earlier)
        yield "\nwhich led to\n\n"
    yield from traceback.format_tb(error.__traceback__)
    # A tool's own error is for the model, in the tool's words.
    ours = isinstance(error, StepAgentError) and not isinstance(error, ToolError)
    yield f"{type(error).__name__}: {error}\n" if ours else f"{type(error).__name__}\n"
