"""Which model answers: the one that the environment names, or the one that lives on this machine."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

OPENAI_URL = "https://api.openai.com/v1"
DEFAULT_MODEL = "gpt-4.1-mini"
EMBEDDED_MODEL = "qwen2.5-coder-1.5b-instruct"


class ModelNotNamed(RuntimeError):
    """A server is named, but not which of its models to use."""


class BaseUrlWrong(RuntimeError):
    """A server is named by something that is no URL."""


@dataclass(frozen=True)
class ModelChoice:
    """An OpenAI-compatible endpoint. `base_url` is empty for the embedded model, whose port is not known before."""

    name: str
    base_url: str = ""
    api_key: str = field(default="", repr=False)
    label: str = ""

    @property
    def embedded(self) -> bool:
        return not self.base_url


def choose(environment: Mapping[str, str]) -> ModelChoice:
    """Decide by what is set: `OPENAI_API_KEY`, then `OPENAI_BASE_URL`, then `STEPAGENT_GGUF`, then nothing.

    Raises:
        BaseUrlWrong: the base URL is not one of HTTP.
        ModelNotNamed: there is a base URL without a key, and `STEPAGENT_MODEL` is empty.
    """
    key, base_url, name = (
        environment.get(variable, "").strip() for variable in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "STEPAGENT_MODEL")
    )
    if base_url and not base_url.startswith(("http://", "https://")):
        raise BaseUrlWrong(f"OPENAI_BASE_URL is {base_url}, which is no URL such as http://localhost:11434/v1.")
    if key:
        return _remote(name or DEFAULT_MODEL, base_url or OPENAI_URL, key)
    if not base_url:
        return _embedded(environment.get("STEPAGENT_GGUF", "").strip())
    if not name:
        raise ModelNotNamed(
            f"OPENAI_BASE_URL is {base_url}, but STEPAGENT_MODEL does not say which of its models to use.\n"
            "For example: STEPAGENT_MODEL=qwen3:8b make chat"
        )
    return _remote(name, base_url, "")


def _remote(name: str, base_url: str, key: str) -> ModelChoice:
    return ModelChoice(name, base_url.rstrip("/"), key, f"{name} at {base_url.rstrip('/')}")


def _embedded(gguf: str) -> ModelChoice:
    label = Path(gguf).name if gguf else "Qwen2.5-Coder 1.5B, on this machine"
    return ModelChoice(EMBEDDED_MODEL, label=label)
