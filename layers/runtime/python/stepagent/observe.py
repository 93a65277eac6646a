"""The log of all functions: every line bears the ids of what its function works on, and no line a payload."""

import logging
import re
import sys
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar

from aws_lambda_powertools import Logger

from stepagent.log_lines import LineFormatter, WithoutWords, hide_words_in

logger = Logger(logger_formatter=LineFormatter())
logger.addFilter(WithoutWords())  # for handlers of the process, which get the lines as well
# What is raised out of a function, others log too: Lambda's runtime, and the server of `stream`.
hide_words_in(sys.modules.get("awslambdaric.bootstrap"))
logging.getLogger("uvicorn.error").addFilter(WithoutWords())

Event = TypeVar("Event", bound=Mapping[str, Any])
Answer = TypeVar("Answer")

# Only what has the form of an id is logged: paths and bodies are written by whoever calls.
_RUN, _CALL = re.compile(r"run_[a-z0-9]{1,64}_\d{1,16}"), re.compile(r"call_\d{1,16}_\d{1,16}_\d{1,16}")
_FORMS = {
    "run_id": _RUN,
    "turn": re.compile(r"\d{1,16}"),
    "call_id": _CALL,
    "interaction_id": re.compile(r"[A-Za-z0-9_-]{16,64}"),
    "batch_id": re.compile(r"[\w.-]{1,128}", re.ASCII),
}


def observed(handler: Callable[[Event, Any], Answer]) -> Callable[[Event, Any], Answer]:
    """A Lambda handler whose log lines bear its invocation's ids, and that logs what it raises."""

    @wraps(handler)
    def entered(event: Event, context: Any) -> Answer:
        logger.thread_safe_clear_keys()
        identify(**ids_in(event), **_invocation(context))
        try:
            return handler(event, context)
        except Exception:
            logger.exception("function failed")
            raise

    return entered


def identify(**ids: str | int) -> None:
    """Has each line from here on bear these ids: in this invocation, or where requests are tasks in this task."""
    logger.thread_safe_append_keys(**ids)


def ids_in(event: Mapping[str, Any]) -> dict[str, str | int]:
    """The ids of what an event is about: from its own members, its batch, its path, or an execution's name."""
    places = (event, event.get("batch"), event.get("pathParameters"))
    given = {name: place[name] for place in places if isinstance(place, Mapping) for name in _FORMS if name in place}
    found = {
        name: value
        for name, value in given.items()
        if isinstance(value, str | int) and _FORMS[name].fullmatch(str(value))
    }
    detail = event.get("detail")
    named = str(detail.get("name", "")) if isinstance(detail, Mapping) else ""
    # Executions bear the id of their run, with a number or the id of a call behind it.
    spoken = {"run_id": _RUN.match(named), "call_id": _CALL.search(named)}
    return {**{name: match[0] for name, match in spoken.items() if match}, **found}


def _invocation(context: Any) -> dict[str, str]:
    """Which invocation of which function it is, in Powertools' words; all functions share one log group."""
    names = {"function_name": "function_name", "function_request_id": "aws_request_id"}
    return {key: value for key, name in names.items() if isinstance(value := getattr(context, name, None), str)}
