"""Exceptions in the logs: where they come from, and no word that may quote a payload."""

import io
import json
import logging
from types import ModuleType
from typing import Any, TypeVar

import pytest
from pydantic import ValidationError

from stepagent import errors
from stepagent.errors import ConfigurationError, ModelBusy, ModelError, RequestError, StepAgentError, ToolError
from stepagent.log_lines import LineFormatter, WithoutWords, facts_of, hide_words_in
from stepagent.models import Frozen

PAYLOAD = "4000-1234-5678"
Raised = TypeVar("Raised", bound=Exception)
# Errors of ours that say what others said: callers, providers, tools.
QUOTING = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, RequestError | ModelError | ToolError)
]


def logged(error: BaseException) -> dict[str, Any]:
    """The line that is written where an error is caught."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(LineFormatter())
    try:
        raise error
    except BaseException as caught:
        handler.handle(
            logging.makeLogRecord({"msg": "failed", "exc_info": (type(caught), caught, caught.__traceback__)})
        )
    line: dict[str, Any] = json.loads(stream.getvalue())
    return line


def chained(first: Exception, last: Raised) -> Raised:
    last.__cause__ = first
    return last


def meanwhile(first: Exception, last: Exception) -> Exception:
    last.__context__ = first
    return last


def noted(error: Exception) -> Exception:
    error.add_note(PAYLOAD)
    return error


@pytest.mark.parametrize(
    "error",
    [
        ValueError(f"could not convert string to float: {PAYLOAD!r}"),
        *(kind(f"There is no account {PAYLOAD}.") for kind in QUOTING),
        chained(KeyError(PAYLOAD), RuntimeError("it failed")),
        chained(KeyError(PAYLOAD), StepAgentError("It failed.")),
        *(chained(kind(PAYLOAD), StepAgentError("It failed.")) for kind in QUOTING),
        *(meanwhile(kind(PAYLOAD), StepAgentError("It failed.")) for kind in QUOTING),
        noted(ValueError("it failed")),
    ],
    ids=lambda error: type(error).__name__,
)
def test_exception_does_not_say_what_it_was_given(error: Exception) -> None:
    assert PAYLOAD not in json.dumps(logged(error))


def test_exception_says_which_it_is_and_where_it_comes_from() -> None:
    line = logged(ValueError(PAYLOAD))
    assert line["exception_name"] == "ValueError"
    assert "test_log_lines.py" in line["exception"]
    assert line["exception"].endswith("ValueError\n")


def test_exception_says_what_led_to_it() -> None:
    line = logged(chained(KeyError("x"), StepAgentError("It failed.")))
    assert [part.splitlines()[-1] for part in line["exception"].split("\nwhich led to\n")] == [
        "KeyError",
        "StepAgentError: It failed.",
    ]


def test_error_of_ours_says_what_it_says() -> None:
    assert logged(ConfigurationError("A key is not set."))["exception"].endswith(
        "ConfigurationError: A key is not set.\n"
    )


class Refused(Exception):
    """As the client of a provider raises it."""

    status_code, request_id = 429, "req_1-a"


def test_facts_of_an_error_are_its_code_and_what_names_the_refused_request() -> None:
    error = chained(Refused(PAYLOAD), ModelBusy(f"The model is busy (status 429: {PAYLOAD})."))
    assert facts_of(error) == {"code": "model_busy", "cause": "Refused", "status": 429, "request_id": "req_1-a"}


@pytest.mark.parametrize("request_id", [PAYLOAD.replace("-", " "), "a\nb", "x" * 200, "", None, 7])
def test_facts_of_an_error_hold_no_text_in_place_of_an_id(request_id: object) -> None:
    cause = Refused()
    cause.request_id = request_id  # type: ignore[assignment]  # a provider may write anything
    assert "request_id" not in facts_of(chained(cause, ModelBusy(PAYLOAD)))


def test_facts_of_an_error_that_nothing_led_to_are_its_code() -> None:
    assert facts_of(ModelBusy(PAYLOAD)) == {"code": "model_busy"}


def test_any_formatter_shows_an_exception_without_its_words_when_its_logger_is_told_to() -> None:
    stream = io.StringIO()
    foreign = logging.Logger("foreign")
    foreign.addHandler(logging.StreamHandler(stream))
    foreign.addFilter(WithoutWords())
    try:
        raise ValueError(PAYLOAD)
    except ValueError:
        foreign.exception("it broke")
    told = stream.getvalue()
    assert (PAYLOAD in told, "it broke" in told, told.endswith("ValueError\n\n")) == (False, True, True)


def test_runtime_logs_what_a_function_raises_without_its_words() -> None:
    logged: list[dict[str, Any]] = []
    runtime = ModuleType("bootstrap")
    vars(runtime)["log_error"] = lambda result, sink: logged.append(result)
    hide_words_in(runtime)
    result = {"errorMessage": PAYLOAD, "errorType": "ValueError", "stackTrace": ["here"]}
    runtime.log_error(result, None)
    assert logged == [{"errorMessage": "", "errorType": "ValueError", "stackTrace": ["here"]}]
    assert result["errorMessage"] == PAYLOAD  # which is told to whoever invoked it


@pytest.mark.parametrize("runtime", [None, ModuleType("another")])
def test_process_without_that_runtime_is_left_as_it_is(runtime: ModuleType | None) -> None:
    hide_words_in(runtime)


def test_value_that_does_not_fit_is_not_quoted_when_a_model_refuses_it() -> None:
    class Count(Frozen):
        count: int

    with pytest.raises(ValidationError) as refused:
        Count.model_validate({"count": PAYLOAD})
    assert PAYLOAD not in str(refused.value)
