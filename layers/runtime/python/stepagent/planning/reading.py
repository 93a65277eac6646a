"""What a model writes of plans, read: its JSON, whatever it put around it. Pure."""

import re
from typing import TypeVar

from pydantic import ValidationError

from stepagent.answer_form import AnswerForm
from stepagent.models import Frozen, problems

_OBJECT = AnswerForm()
_PREFIX = re.compile(r"\s*0\s*[:：]")  # how answers begin in the text protocol, which a model may have seen before
Written = TypeVar("Written", bound=Frozen)


def read_as(kind: type[Written], text: str) -> Written:
    """The one JSON object of a reply.

    Raises:
        ValueError: it is none of this kind; the message says why, for the model.
    """
    try:
        return kind.model_validate_json(_OBJECT.read(_PREFIX.sub("", text, count=1)))
    except ValidationError as error:
        raise ValueError(problems(error)) from None
