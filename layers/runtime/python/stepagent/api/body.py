"""Bodies of requests: read from bytes and checked against a model; refusals name the field."""

from base64 import b64decode
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import from_json

from stepagent.errors import BodyTooLarge, InvalidRequest

# An image of some megabytes fits, in base64. A function is called with 6 MB at most, in which a body is a JSON string.
MAX_BODY_BYTES = 4 * 1024 * 1024

FORMS = ("a text", "a list of parts", "an object")  # of a value; pydantic puts them into the place of an error


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


BodyT = TypeVar("BodyT", bound=Body)


def raw_body(text: str | None, *, is_base64: bool) -> bytes:
    """The body of an event of API Gateway, as the client sent it.

    Raises:
        InvalidRequest: it is not the base64 that the event says.
    """
    if not is_base64:
        return (text or "").encode()
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
        raise _refusal(error.errors(include_url=False, include_input=False)[0], unsupported) from error


def read_object(body: bytes, limit_bytes: int = MAX_BODY_BYTES) -> dict[str, Any]:
    """Reads a JSON object.

    Raises:
        BodyTooLarge: more than the limit.
        InvalidRequest: it is none.
    """
    if len(body) > limit_bytes:
        raise BodyTooLarge(f"The body has {len(body)} bytes; at most {limit_bytes} are taken.")
    try:
        content = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise InvalidRequest(f"The body is not valid JSON: {error}.") from error
    if not isinstance(content, dict):
        raise InvalidRequest("The body must be a JSON object.")
    return content


def _refusal(problem: Any, unsupported: frozenset[str]) -> InvalidRequest:
    place = [str(part) for part in problem["loc"] if part not in FORMS]
    param = ".".join(place)
    if problem["type"] == "extra_forbidden":
        return InvalidRequest(f"{param!r} is not supported.", param, "unsupported_parameter")
    if place and place[0] in unsupported:
        return InvalidRequest(f"{place[0]!r} is not supported.", place[0], "unsupported_parameter")
    message = problem["msg"].removeprefix("Value error, ")
    return InvalidRequest(f"{param!r}: {message}.", param)
