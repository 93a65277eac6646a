"""Exceptions in the logs: where they come from, and no word that may quote a payload."""

import io
import json
import logging
from typing import Any

import pytest
from pydantic import ValidationError

from stepagent.errors import ModelBusy, StepAgentError, ToolError
from stepagent.log_lines import LineFormatter
from stepagent.models import Frozen

PAYLOAD = "4000-1234-5678"


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


def chained(first: Exception, last: Exception) -> Exception:
    last.__cause__ = first
    return last


def noted(error: Exception) -> Exception:
    error.add_note(PAYLOAD)
    return error


@pytest.mark.parametrize(
    "error",
    [
        ValueError(f"could not convert string to float: {PAYLOAD!r}"),
        ToolError(f"There is no account {PAYLOAD}."),
        chained(KeyError(PAYLOAD), RuntimeError("it failed")),
        chained(KeyError(PAYLOAD), StepAgentError("It failed.")),
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
    assert logged(ModelBusy("The model is busy (429)."))["exception"].endswith("ModelBusy: The model is busy (429).\n")


def test_value_that_does_not_fit_is_not_quoted_when_a_model_refuses_it() -> None:
    class Count(Frozen):
        count: int

    with pytest.raises(ValidationError) as refused:
        Count.model_validate({"count": PAYLOAD})
    assert PAYLOAD not in str(refused.value)
