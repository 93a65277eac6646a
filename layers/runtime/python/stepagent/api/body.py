"""Bodies of requests: read from bytes and checked against a model; refusals name the field."""

import codecs
import math
from base64 import b64decode
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import from_json

from stepagent.errors import BodyTooLarge, InvalidRequest

# An image of some megabytes fits, in base64. A function is called with 6 MB at most, in which a body is a JSON string.
MAX_BODY_BYTES = 4 * 1024 * 1024

FORMS = ("a text", "a list of parts", "an object")  # of a value; pydantic puts them into the place of an error

_GZIP = b"\x1f\x8b"
_SHOWN_CHARS = 300  # of what a refusal says, and of the name in it: both may hold what the client wrote
_NAME_CHARS = 64  # of each part of that name
_SHOWN_NAMES = 20  # of fields that were ignored


class Body(BaseModel):
    """Unknown fields are refused by name: a client must not believe that we do what we ignore."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, content: Any) -> Any:
        """A null stands for a field that is not given: clients send many of those."""
        return (
            {name: value for name, value in content.items() if value is not None}
            if isinstance(content, dict)
            else content
        )


class OpenBody(Body):
    """A name that nobody knows is no reason to refuse a request: the reply tells that it was ignored.

    What OpenAI offers and we do not is refused by name.
    """

    model_config = ConfigDict(extra="allow")

    @property
    def ignored(self) -> list[str]:
        """Names of fields that nobody knows, as far as they can be shown."""
        return [name[:_NAME_CHARS] for name in sorted(self.model_extra or {})][:_SHOWN_NAMES]


BodyT = TypeVar("BodyT", bound=Body)


def raw_body(text: str | None, *, is_base64: bool) -> bytes:
    """The body of an event of API Gateway, as the client sent it.

    Raises:
        InvalidRequest: it is not the base64 that the event says.
    """
    if not is_base64:
        return (text or "").encode("utf-8", "surrogatepass")  # half a character is refused as JSON, not here
    try:
        return b64decode(text or "", validate=True)
    except ValueError as error:
        raise InvalidRequest("The body is not base64.") from error


def read_body(body: bytes, kind: type[BodyT], unsupported: frozenset[str] = frozenset()) -> BodyT:
    """Reads and checks a JSON object. `unsupported` are fields of which any value but the neutral one is refused.

    Raises:
        BodyTooLarge: more than 4 MB.
        InvalidRequest: anything else that is wrong; the message and `param` name the field.
    """
    content = read_object(body)
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        raise _refusal(error.errors(include_url=False, include_input=False)[0], content, unsupported) from error


def read_object(body: bytes, limit_bytes: int = MAX_BODY_BYTES) -> dict[str, Any]:
    """Reads a JSON object.

    Raises:
        BodyTooLarge: more than the limit.
        InvalidRequest: it is none.
    """
    if len(body) > limit_bytes:
        raise BodyTooLarge(f"The body has {len(body)} bytes; at most {limit_bytes} are taken.")
    if body.startswith(_GZIP):
        raise InvalidRequest("A compressed body is not read; send the JSON as it is.")
    try:
        content = from_json(body.removeprefix(codecs.BOM_UTF8), allow_inf_nan=False)
    except ValueError as error:
        raise InvalidRequest(f"The body is not valid JSON in UTF-8: {error}.") from error
    if not isinstance(content, dict):
        raise InvalidRequest("The body must be a JSON object.")
    if not _is_finite(content):
        raise InvalidRequest("The body holds a number that is too large, such as 1e999.")
    return content


def _is_finite(value: Any) -> bool:
    """Whether all numbers are some: the reader takes 1e999 for infinity, which JSON has no way to write again."""
    match value:
        case float():
            return math.isfinite(value)
        case dict():
            return all(map(_is_finite, value.values()))
        case list():
            return all(map(_is_finite, value))
        case _:
            return True


def _refusal(problem: Any, content: dict[str, Any], unsupported: frozenset[str]) -> InvalidRequest:
    place = _place(problem, content)
    param = ".".join(part[:_NAME_CHARS] for part in place)[:_SHOWN_CHARS]
    if problem["type"] == "extra_forbidden":
        return InvalidRequest(f"{param!r} is not supported.", param, "unsupported_parameter")
    if place and place[0] in unsupported:
        return InvalidRequest(f"{place[0]!r} is not supported.", place[0], "unsupported_parameter")
    return InvalidRequest(f"{param!r}: {_why(problem)[:_SHOWN_CHARS]}.", param)


def _place(problem: Any, content: Any) -> list[str]:
    """The names that lead to what is wrong, as the client wrote them: pydantic adds those of forms that it tried."""
    place: list[str] = []
    missing = problem["loc"][-1:] if problem["type"] == "missing" else ()
    for part in problem["loc"][: len(problem["loc"]) - len(missing)]:
        if (isinstance(content, dict) and part in content) or (isinstance(content, list) and isinstance(part, int)):
            content = content[part]
            place.append(str(part))
    return [*place, *map(str, missing)]


def _why(problem: Mapping[str, Any]) -> str:
    if problem["type"] == "union_tag_invalid":
        return f"its {problem['ctx']['discriminator']} is one of {problem['ctx']['expected_tags']}"
    message: str = problem["msg"]
    return message.removeprefix("Value error, ")
