"""How exceptions look in the logs: where they come from, and what they say only where they are ours.

What others' exceptions say may quote what they were given, such as a call's arguments. It is in the record, as the
result of the call or the failure of the run, which only its owner reads.
"""

import logging
import re
import traceback
from collections.abc import Iterator, Mapping
from types import ModuleType, TracebackType

from aws_lambda_powertools.logging.formatter import LambdaPowertoolsFormatter

from stepagent.errors import ModelError, RequestError, StepAgentError, ToolError

# Ours as well, but with words of callers, of a model's provider, of a tool.
_QUOTING = (RequestError, ModelError, ToolError)
_REQUEST_ID = re.compile(r"[A-Za-z0-9_.:-]{1,128}")

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


class WithoutWords(logging.Filter):
    """Has the formatters of others show an exception as ours does."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.exc_info and record.exc_info[1]:
            record.exc_text = "".join(_told(record.exc_info[1]))  # a formatter makes none where one is
        return True


def hide_words_in(runtime: ModuleType | None) -> None:
    """Has Lambda's runtime log what a function raises without its words; whoever invoked it is told them all the same.

    Args:
        runtime: `awslambdaric.bootstrap`; None, or without such a function, where something else runs this process.
    """
    log_error = getattr(runtime, "log_error", None)
    if runtime is None or log_error is None:
        return

    def log_without_words(error_result: Mapping[str, object], *rest: object) -> None:
        log_error({**error_result, "errorMessage": ""}, *rest)

    vars(runtime)["log_error"] = log_without_words


def facts_of(error: StepAgentError) -> dict[str, str | int]:
    """What identifies an error without its words: its code, what led to it, status and id of a request refused."""
    facts: dict[str, str | int] = {"code": error.code}
    if error.__cause__ is not None:
        facts["cause"] = type(error.__cause__).__name__
    if isinstance(status := getattr(error.__cause__, "status_code", None), int):
        facts["status"] = status
    request_id = getattr(error.__cause__, "request_id", None)
    if isinstance(request_id, str) and _REQUEST_ID.fullmatch(request_id):  # a header, so it may be any text
        facts["request_id"] = request_id
    return facts


def _told(error: BaseException) -> Iterator[str]:
    """The exception, with those that led to it, the first one first."""
    earlier = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if earlier:
        yield from _told(earlier)
        yield "\nwhich led to\n\n"
    yield from traceback.format_tb(error.__traceback__)
    ours = isinstance(error, StepAgentError) and not isinstance(error, _QUOTING)
    yield f"{type(error).__name__}: {error}\n" if ours else f"{type(error).__name__}\n"
