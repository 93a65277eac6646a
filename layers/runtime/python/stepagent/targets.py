"""Where calls of tools without a function of their own go."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from stepagent.models import Frozen
from stepagent.web.errors import WebRefused
from stepagent.web.headers import check_header
from stepagent.web.template import UrlTemplate
from stepagent.web.urls import Url

Place = Literal["path", "query", "header", "body"]

_WITHOUT_BODY = frozenset({"GET", "HEAD"})
_SECRET_HEADERS = frozenset({"authorization", "cookie", "x-api-key", "api-key"})
_IN_QUERY = frozenset({"GET", "HEAD", "DELETE"})
_OF_MCP = frozenset({"accept", "content-type", "last-event-id"})  # and mcp-…


class Placement(Frozen):
    """Where an argument goes, and under which name if not its own. In a file, a place alone stands for it."""

    place: Place
    name: str = Field("", max_length=100)


class SecretValue(Frozen):
    """A header or a parameter of the query that only the server may read.

    `secret` names a secret of Secrets Manager whose text is the value; it begins with `stepagent/tools/`, which is all
    that the function may read: the keys of models are out of reach for tools.
    """

    secret: str = Field(pattern=r"^stepagent/tools/[A-Za-z0-9/_+=.@-]{1,200}$")
    prefix: str = Field("", pattern=r"^([!-~][ -~]*)?$", max_length=100)
    place: Literal["header", "query"] = "header"


def _as_placement(row: Any) -> Any:
    return {"place": row} if isinstance(row, str) else row


class HttpTarget(Frozen):
    """A REST call: to one host, which the URL names and no argument can change.

    `url` is a template such as `https://api.example.com/v1/items/{id}`. An argument goes where the template names it,
    else where `arguments` says, else into the query of GET, HEAD and DELETE and into the body of other methods.
    """

    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"] = "GET"
    url: str
    arguments: dict[str, Annotated[Placement, BeforeValidator(_as_placement)]] = Field(default_factory=dict)
    headers: dict[str, str] = Field(default_factory=dict, description="Headers that are always the same.")
    secrets: dict[str, SecretValue] = Field(default_factory=dict, description="By name of header or parameter.")
    body: Literal["json", "form"] = "json"
    response_limit_bytes: int = Field(1_000_000, ge=1_000, le=5_000_000, description="Read of an answer, decompressed.")
    allow_http: bool = Field(False, description="Takes a URL without encryption, which anybody on the way can read.")

    @property
    def template(self) -> UrlTemplate:
        return UrlTemplate.parse(self.url)

    def placement(self, argument: str) -> Placement:
        """Where an argument goes, with the name that it has there; the place is `path` wherever the URL names it."""
        if argument in self.template.in_path | self.template.in_query:
            return Placement(place="path", name=argument)
        given = self.arguments.get(argument) or Placement(place="query" if self.method in _IN_QUERY else "body")
        return Placement(place=given.place, name=given.name or argument)

    def check_arguments(self, declared: Collection[str], always_given: Collection[str]) -> None:
        """Passes if the target fits a tool with these arguments, of which some are required or bound.

        Raises:
            ValueError: it does not; the message says what to change.
        """
        if unknown := set(self.arguments) - set(declared):
            raise ValueError(f"http.arguments places {_listed(unknown)}, which parameters does not declare")
        if missing := self.template.in_path - set(always_given):
            raise ValueError(f"the path of http.url needs {_listed(missing)}: list it as required, or bind it")
        in_query = {name for name, secret in self.secrets.items() if secret.place == "query"}
        named = {placed.name for placed in map(self.placement, declared) if placed.place == "query"}
        if taken := in_query & named:
            raise ValueError(f"{_listed(taken)} is both a secret and an argument in the query: rename the argument")

    @model_validator(mode="after")
    def _has_one_host(self) -> Self:
        _check_encryption(self.template.example(), allow_http=self.allow_http)
        return self

    @model_validator(mode="after")
    def _places_arguments_where_they_can_be(self) -> Self:
        for argument, placed in self.arguments.items():
            if argument in self.template.in_path | self.template.in_query:
                raise ValueError(f"leave {argument} out of arguments: url says already where it goes")
            if placed.place == "path":
                raise ValueError(
                    f"write {{{argument}}} into the path of url: nothing else says where in the path it goes"
                )
            if placed.place == "body" and self.method in _WITHOUT_BODY:
                raise ValueError(f"place {argument} in the query: a {self.method} request has no body")
        return self

    @model_validator(mode="after")
    def _keeps_secrets_out_of_the_row(self) -> Self:
        if secret := [name for name in self.headers if name.lower() in _SECRET_HEADERS]:
            raise ValueError(f"put {secret[0]} under secrets: whoever may read the row would read it in headers")
        return self

    @model_validator(mode="after")
    def _sets_each_header_once(self) -> Self:
        placed = [(item.name or name) for name, item in self.arguments.items() if item.place == "header"]
        secret = [name for name, item in self.secrets.items() if item.place == "header"]
        _check_headers(self.headers, [*placed, *secret])
        return self


class McpTarget(Frozen):
    """An MCP server, spoken to over streamable HTTP; or, where `tool` is set, that one tool of it.

    `only` narrows down what the server offers. `trust_hints` believes what it says of its tools (see `mcp_tools`).
    `version` is the protocol that it was found to speak, which spares asking again.
    """

    url: str
    headers: dict[str, str] = Field(default_factory=dict, description="Headers that are always the same.")
    secrets: dict[str, SecretValue] = Field(default_factory=dict, description="By name of header.")
    only: tuple[str, ...] | None = Field(None, min_length=1, description="Tools to offer; None offers all.")
    trust_hints: bool = False
    cache_s: int = Field(3_600, ge=0, le=604_800, description="Seconds for which a list of its tools is not renewed.")
    allow_http: bool = Field(False, description="Takes a URL without encryption, which anybody on the way can read.")
    tool: str = Field("", max_length=128)
    version: str = Field("", max_length=32)

    @property
    def endpoint(self) -> Url:
        """Where its requests go."""
        return Url.parse(self.url)

    @model_validator(mode="after")
    def _names_a_server(self) -> Self:
        try:
            endpoint = self.endpoint
        except WebRefused as error:
            raise ValueError(f"url: {error.message}") from error
        _check_encryption(endpoint, allow_http=self.allow_http)
        return self

    @model_validator(mode="after")
    def _adds_headers_alone(self) -> Self:
        if elsewhere := {name for name, secret in self.secrets.items() if secret.place != "header"}:
            raise ValueError(f"{_listed(elsewhere)} must be placed in the header: the URL of a server has no secrets")
        names = {name.lower() for name in (*self.headers, *self.secrets)}
        if taken := {name for name in names if name in _OF_MCP or name.startswith("mcp-")}:
            raise ValueError(f"the header {_listed(taken)} is set by the protocol itself")
        _check_headers(self.headers, list(self.secrets))
        return self


def _check_encryption(url: Url, *, allow_http: bool) -> None:
    if url.scheme == "http" and not allow_http:
        raise ValueError("url has no encryption: use https, or set allow_http to true")


def _check_headers(fixed: Mapping[str, str], others: Sequence[str]) -> None:
    """Passes if every header may be sent, and is set once. The values of the others are known with a call only."""
    names = [name.lower() for name in (*fixed, *others)]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"the header {_listed(twice)} is set twice, by headers, secrets or arguments")
    try:
        for name, value in [*fixed.items(), *((name, "") for name in others)]:
            check_header(name, value)
    except WebRefused as error:
        raise ValueError(error.message) from error


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
