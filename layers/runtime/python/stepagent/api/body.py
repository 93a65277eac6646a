"""Bodies of requests: read from bytes and checked against a model; refusals name the field."""

from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import from_json

from stepagent.errors import BodyTooLarge, InvalidRequest

MAX_BODY_BYTES = 4 * 1024 * 1024  # an image in base64 fits; a function takes 6 MB, in which the body is escaped as JSON


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


class Form(str):
    """The name of one form of a value that has several; pydantic puts it into the place of an error."""

    __slots__ = ()


def read_body(body: bytes, kind: type[BodyT], unsupported: frozenset[str] = frozenset()) -> BodyT:
    """Reads a JSON object. A field that is `unsupported` is one whose every value but its default is refused.

    Raises:
        BodyTooLarge: more than 4 MB.
        InvalidRequest: anything else that is wrong; the message and `param` name the field.
    """
    if len(body) > MAX_BODY_BYTES:
        raise BodyTooLarge(f"The body has {len(body)} bytes; at most {MAX_BODY_BYTES} are taken.")
    try:
        content = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise InvalidRequest(f"The body is not valid JSON: {error}.") from error
    if not isinstance(content, dict):
        raise InvalidRequest("The body must be a JSON object.")
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        raise _refusal(error.errors(include_url=False, include_input=False)[0], unsupported) from error


def _refusal(problem: Any, unsupported: frozenset[str]) -> InvalidRequest:
    place = [part for part in problem["loc"] if not isinstance(part, Form)]
    param = ".".join(map(str, place))
    if problem["type"] == "extra_forbidden" or (place and place[0] in unsupported):
        return InvalidRequest(f"{param!r} is not supported.", param, "unsupported_parameter")
    return InvalidRequest(f"{param!r}: {problem['msg']}.", param)
