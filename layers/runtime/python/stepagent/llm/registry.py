"""The models of `catalog/models.yaml`, as typed rows."""

import os
import re
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field, TypeAdapter, ValidationError

from stepagent.errors import ConfigurationError
from stepagent.models import Frozen


class ModelSpec(Frozen):
    """One model: where it is, what it is called there, and how to call it."""

    name: str = Field(description="What agents call it.")
    provider_model: str = Field(description="What the provider calls it.")
    base_url: str = Field(description="The provider's base URL, up to and including /v1.")
    api_key_secret: str = Field("", description="Secrets Manager ARN or name whose text is the key; empty for none.")
    tool_choice: bool = Field(True, description="It takes `tools` and answers with `tool_calls`.")
    stream_usage: bool = Field(True, description="It takes `stream_options.include_usage`.")
    max_output_field: str = Field("max_completion_tokens", description="Its name for the bound on a reply's tokens.")
    idle_timeout_s: int = Field(60, ge=1, description="Seconds without a byte after which a stream counts as dead.")
    first_byte_timeout_s: int = Field(120, ge=1, description="Seconds to wait for the first byte of a reply.")


@cache
def load_models(path: Path) -> dict[str, ModelSpec]:
    """Reads the rows by name. `${NAME}` and `${NAME:-default}` stand for environment variables.

    Raises:
        ConfigurationError: the file is missing, or a row is wrong; the message names the row and the field.
    """
    try:
        rows = _expand(yaml.safe_load(path.read_text(encoding="utf-8")))
        models = TypeAdapter(list[ModelSpec]).validate_python(rows)
    except OSError as error:
        raise ConfigurationError(f"The list of models cannot be read: {error}.") from error
    except (yaml.YAMLError, ValidationError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path.name} is not a list of models: {error}") from error
    by_name = {model.name: model for model in models}
    if len(by_name) < len(models):
        raise ConfigurationError(f"Two models in {path.name} have the same name.")
    return by_name


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
