"""The models of `catalog/models.yaml`, as typed rows."""

import os
import re
from collections.abc import Mapping
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import Field, ValidationError, field_validator, model_validator

from stepagent.errors import ConfigurationError
from stepagent.llm.reply import ModeName
from stepagent.llm.schema import Dialect
from stepagent.models import Frozen
from stepagent.row_problems import in_words
from stepagent.usage import Usage
from stepagent.yaml_text import read_yaml

MODELS_FILE = "models.yaml"  # in the catalog

Price = Annotated[Decimal, Field(ge=0)]


_MILLION = 1_000_000


class Prices(Frozen):
    """US dollars per million tokens. A price that is not known makes the cost unknown, never zero.

    Without a price of its own, cached input costs what other input costs.
    """

    input: Price | None = None
    cached: Price | None = None
    output: Price | None = None

    def cost_usd(self, usage: Usage) -> Decimal | None:
        """What these tokens cost, None where that is not known."""
        if self.input is None or self.output is None or not usage.complete:
            return None
        cached = self.input if self.cached is None else self.cached
        fresh_tokens = max(0, usage.input_tokens - usage.cached_tokens)
        cost = fresh_tokens * self.input + usage.cached_tokens * cached + usage.output_tokens * self.output
        return cost / _MILLION


class ModelSpec(Frozen):
    """One model: where it is, what it is called there, what it can, and what its server does otherwise than others."""

    name: str = Field(description="What agents call it.")
    provider_model: str = Field(description="What the provider calls it.")
    vendor: str = Field("", description="Whose server it is; opaque fields of a reply go back to the same vendor only.")
    base_url: str = Field(description="The provider's base URL, up to where /chat/completions follows.")
    query: dict[str, str] = Field(default_factory=dict, description="Query parameters of each request.")
    api_key_secret: str = Field("", description="Secrets Manager ARN or name whose text is the key; empty for none.")

    tool_choice: bool = Field(True, description="It takes `tools` and answers with `tool_calls`.")
    function_call: bool = Field(False, description="It takes the older `functions` and answers with `function_call`.")
    vision: bool = Field(False, description="It takes images.")
    reasoning: bool = Field(False, description="It thinks before it answers, and that is sent apart.")
    context_tokens: int = Field(32_768, ge=1024, description="Tokens of a request and its reply together.")
    output_tokens: int = Field(4_096, ge=1, description="Tokens of a reply that are kept free in the context.")
    prices: Prices = Prices()
    fallbacks: tuple[str, ...] = Field((), description="Models to ask in its place, in this order, where it fails.")

    schema_dialect: Dialect = Field("openai", description="Which constructs of JSON Schema its server takes in tools.")
    call_id_pattern: str = Field(r"[\x21-\x7e]{1,64}", description="Ids of calls that its server takes back.")
    parallel_tool_calls: bool | None = Field(None, description="Sent as it is; None sends no such field.")
    reasoning_effort: bool = Field(False, description="It takes `reasoning_effort`.")
    response_format: Literal["none", "object", "schema"] = Field(
        "none", description="What it takes as `response_format`: nothing, a JSON object, or also a JSON Schema."
    )
    stream_usage: bool = Field(True, description="It takes `stream_options.include_usage`.")
    defaults: dict[str, Any] = Field(default_factory=dict, description="Request fields unless the agent sets them.")
    renamed: dict[str, str] = Field(default_factory=dict, description="Request fields that its server names otherwise.")
    unsupported: tuple[str, ...] = Field((), description="Request fields that its server refuses; they are not sent.")
    reasoning_field: str = Field("", description="The field in which its reasoning goes back with its tool calls.")

    idle_timeout_s: float = Field(60, gt=0, description="Seconds of comments alone after which a stream is dead.")
    first_byte_timeout_s: float = Field(120, gt=0, description="Seconds to wait for a byte, the first or a later one.")

    @field_validator("call_id_pattern")
    @classmethod
    def _is_a_pattern(cls, pattern: str) -> str:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"not a regular expression: {error}") from error
        return pattern

    @model_validator(mode="after")
    def _leaves_room(self) -> Self:
        if self.output_tokens >= self.context_tokens:
            raise ValueError("output_tokens leave no room for a conversation in context_tokens")
        return self

    @property
    def server(self) -> str:
        """Whose server it is, for what only that one understands."""
        return self.vendor or self.base_url

    def takes(self, field: str) -> bool:
        """Whether its server takes a field of a request."""
        if field == "reasoning_effort":
            return self.reasoning_effort
        return field not in self.unsupported

    def _sends(self, field: str) -> bool:
        return self.takes(field) or (field == "reasoning_effort" and field in self.defaults)

    def priced(self, usage: Usage) -> Usage:
        """The same tokens with what they cost here."""
        return usage.model_copy(update={"cost_usd": self.prices.cost_usd(usage)})

    def __hash__(self) -> int:
        return hash((self.name, self.provider_model, self.base_url))

    def request(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """The whole request: its defaults, then these fields, as its server names them."""
        wanted = {**self.defaults, **fields}
        if self.stream_usage:
            wanted["stream_options"] = {"include_usage": True}
        if self.parallel_tool_calls is not None and fields.get("tools"):
            wanted["parallel_tool_calls"] = self.parallel_tool_calls
        sent = {self.renamed.get(name, name): value for name, value in wanted.items() if self._sends(name)}
        return {"model": self.provider_model, "stream": True, **sent}


@cache
def load_models(path: Path) -> dict[str, ModelSpec]:
    """Reads the models by name. A model has its provider's fields, and its own before them.

    `${NAME}` and `${NAME:-default}` stand for environment variables.

    Raises:
        ConfigurationError: the file is missing, or a row is wrong; the message names the row and the field.
    """
    try:
        content = _expand(read_yaml(path.read_text(encoding="utf-8")))
        providers = content.get("providers", {})
        models = [_model(row, providers) for row in content["models"]]
    except OSError as error:
        raise ConfigurationError(f"The list of models cannot be read: {error}.") from error
    except (yaml.YAMLError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigurationError(f"{path.name} is not right: {error}") from error
    by_name = {model.name: model for model in models}
    if len(by_name) < len(models):
        raise ConfigurationError(f"Two models in {path.name} have the same name.")
    _check_fallbacks(by_name, path)
    return by_name


def modes_of(model: ModelSpec, refused: frozenset[ModeName] = frozenset()) -> list[ModeName]:
    """The modes in which a model can be called, the best first, less those that its server refused. Text remains."""
    native: list[tuple[ModeName, bool]] = [("tool_choice", model.tool_choice), ("function_call", model.function_call)]
    return [*(name for name, can in native if can and name not in refused), "prompt_call"]


def _model(row: dict[str, Any], providers: dict[str, dict[str, Any]]) -> ModelSpec:
    own = dict(row)
    name, provider = own.get("name"), own.pop("provider", None)
    if provider and provider not in providers:
        raise ValueError(f"model {name!r} has the unknown provider {provider!r}")
    try:
        return ModelSpec(**{"vendor": provider or "", **(providers[provider] if provider else {}), **own})
    except ValidationError as error:
        raise ValueError(f"model {name!r}: {in_words(error, ModelSpec)}") from None


def _check_fallbacks(models: Mapping[str, ModelSpec], path: Path) -> None:
    for model in models.values():
        if missing := [name for name in model.fallbacks if name not in models]:
            raise ConfigurationError(f"{path.name}: {model.name!r} falls back to unknown {', '.join(missing)}.")


def find_model(name: str, path: Path) -> ModelSpec:
    """One row.

    Raises:
        ConfigurationError: there is no such row; the message lists those that there are.
    """
    models = load_models(path)
    if name not in models:
        raise ConfigurationError(f"There is no model {name!r} in {path.name}; it has {', '.join(models)}.")
    return models[name]


def _expand(value: Any) -> Any:
    """Expands after parsing, so that no value changes what the file says. As in a shell, quotes fall off a default."""
    match value:
        case str():
            return re.sub(r"\$\{(\w+)(?::-([^}]*))?\}", _variable, value)
        case list():
            return [_expand(each) for each in value]
        case dict():
            return {name: _expand(each) for name, each in value.items()}
    return value


def _variable(match: re.Match[str]) -> str:
    return os.environ.get(match[1]) or (match[2] or "").strip("\"'")
