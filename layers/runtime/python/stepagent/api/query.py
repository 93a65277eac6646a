"""What stands behind a path's question mark, checked against a model; refusals name the parameter."""

from collections.abc import Mapping
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from stepagent.errors import InvalidRequest

_NAME_CHARS = 64


class Query(BaseModel):
    """Unknown parameters are refused by name, as unknown fields of bodies are."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class VersionQuery(Query):
    """Which version of a row; the one that stands where none is named."""

    version: str | None = None


QueryT = TypeVar("QueryT", bound=Query)


def read_query(given: Mapping[str, str], kind: type[QueryT]) -> QueryT:
    """Reads and checks the parameters of a query.

    Raises:
        InvalidRequest: one is unknown or wrong; the message and `param` name it.
    """
    try:
        return kind.model_validate(dict(given))
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        param = ".".join(map(str, problem["loc"]))[:_NAME_CHARS]
        if problem["type"] == "extra_forbidden":
            raise InvalidRequest(f"{param!r} is not supported.", param, "unsupported_parameter") from error
        raise InvalidRequest(f"{param!r}: {problem['msg']}.", param) from error
