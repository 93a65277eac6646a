"""The list of models: the repository's own, and how a row becomes a request."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from stepagent.errors import ConfigurationError
from stepagent.llm.registry import ModelSpec, find_model, load_models, modes_of
from stepagent.llm.reply import ModeName
from tests.functions import ROOT

OWN = ROOT / "catalog" / "models.yaml"
VARIABLES = sorted(set(re.findall(r"\$\{(\w+)", OWN.read_text("utf-8"))))
PROVIDERS = [
    "openai",
    "azure",
    "vllm",
    "ollama",
    "llama_cpp",
    "deepseek",
    "qwen",
    "gemini",
    "mistral",
    "groq",
    "openrouter",
    "bedrock",
]
ROW = {"name": "m", "provider_model": "m-1", "base_url": "http://127.0.0.1/v1"}


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The repository's list where no environment variable is set; a path of its own, since lists are read once."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    copied = tmp_path / "models.yaml"
    copied.write_text(OWN.read_text("utf-8"), "utf-8")
    return copied


def load(tmp_path: Path, content: Any) -> dict[str, ModelSpec]:
    path = tmp_path / "models.yaml"
    path.write_text(yaml.safe_dump(content))
    return load_models(path)


def a_model(**changes: Any) -> ModelSpec:
    return ModelSpec.model_validate({**ROW, **changes})


def test_list_is_right_when_no_environment_variable_is_set(own: Path) -> None:
    models = load_models(own)
    assert models["default"].api_key_secret == ""
    assert not [model.name for model in models.values() if "$" in model.model_dump_json()]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_provider_has_a_model_that_is_ready_to_copy(own: Path, provider: str) -> None:
    models = [model for model in load_models(own).values() if model.vendor == provider]
    assert models
    assert all(re.match(r"https?://[\w.-]+(:\d+)?/", model.base_url) for model in models)


def test_every_provider_of_the_list_has_a_model(own: Path) -> None:
    content = yaml.safe_load(own.read_text("utf-8"))
    assert set(content["providers"]) == {row["provider"] for row in content["models"]}
    assert set(content["providers"]) == {"compatible", *PROVIDERS}


def test_server_on_this_machine_needs_no_key_and_others_do(own: Path) -> None:
    for model in load_models(own).values():
        if model.name != "default":
            assert bool(model.api_key_secret) == model.base_url.startswith("https://"), model.name


def test_every_model_leaves_room_for_a_conversation(own: Path) -> None:
    assert all(model.context_tokens - model.output_tokens >= 2_000 for model in load_models(own).values())


@pytest.mark.parametrize(
    ("variable", "value", "model", "field"),
    [
        ("STEPAGENT_MODEL", "other", "default", "provider_model"),
        ("OPENAI_BASE_URL", "http://127.0.0.1:9/v1", "default", "base_url"),
        ("MODEL_API_KEY_SECRET_ARN", "arn:x", "default", "api_key_secret"),
        ("MODEL_RESPONSE_FORMAT", "schema", "default", "response_format"),
        ("AWS_REGION", "eu-west-1", "bedrock", "base_url"),
    ],
)
def test_variable_is_put_in_when_it_is_set(
    own: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, model: str, field: str
) -> None:
    monkeypatch.setenv(variable, value)
    assert value in getattr(load_models(own)[model], field)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"base": "typed wrong"}, "base"),
        ({"context_tokens": 5}, "context_tokens"),
        ({"output_tokens": 32_768}, "output_tokens"),
        ({"schema_dialect": "klingon"}, "schema_dialect"),
        ({"call_id_pattern": "["}, "call_id_pattern"),
        ({"prices": {"input": -1}}, "prices"),
        ({"provider": "nobody"}, "nobody"),
        ({"fallbacks": ["nobody"]}, "nobody"),
        ({"unsupported": "tools"}, "unsupported"),
    ],
)
def test_row_and_field_are_named_when_a_row_is_wrong(tmp_path: Path, changes: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        load(tmp_path, {"models": [{**ROW, "name": "good"}, {**ROW, "name": "broken", **changes}]})
    assert "'broken'" in error.value.message
    assert named in error.value.message


def test_models_fields_stand_before_its_providers_when_both_have_them(tmp_path: Path) -> None:
    providers = {"p": {"base_url": "http://p/v1", "vision": True, "output_tokens": 7}}
    row = {"name": "m", "provider": "p", "provider_model": "m-1", "output_tokens": 9}
    model = load(tmp_path, {"providers": providers, "models": [row]})["m"]
    assert (model.vendor, model.base_url, model.vision, model.output_tokens) == ("p", "http://p/v1", True, 9)


def test_server_is_known_by_its_address_when_no_provider_is_named(tmp_path: Path) -> None:
    assert load(tmp_path, {"models": [ROW]})["m"].server == "http://127.0.0.1/v1"


def test_names_are_listed_when_an_unknown_model_is_asked_for(own: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"'gpt-9'.*default, gpt, azure"):
        find_model("gpt-9", own)


def test_price_is_unknown_and_not_zero_when_none_is_written() -> None:
    assert a_model().prices.input is None


@pytest.mark.parametrize(
    ("can", "refused", "modes"),
    [
        ({}, (), ["tool_choice", "prompt_call"]),
        ({"function_call": True}, (), ["tool_choice", "function_call", "prompt_call"]),
        ({"function_call": True}, ("tool_choice",), ["function_call", "prompt_call"]),
        ({"tool_choice": False}, (), ["prompt_call"]),
        ({}, ("tool_choice", "prompt_call"), ["prompt_call"]),
    ],
)
def test_modes_are_those_that_the_model_can_and_its_server_takes(
    can: dict[str, bool], refused: tuple[ModeName, ...], modes: list[str]
) -> None:
    assert modes_of(a_model(**can), frozenset(refused)) == modes


def test_request_has_the_models_name_and_a_stream_whatever_else_it_holds() -> None:
    assert a_model().request({"messages": []}) == {
        "model": "m-1",
        "stream": True,
        "messages": [],
        "stream_options": {"include_usage": True},
    }


@pytest.mark.parametrize(
    ("row", "fields", "sent"),
    [
        ({"stream_usage": False}, {}, {}),
        ({"stream_usage": False, "defaults": {"top_k": 5}}, {}, {"top_k": 5}),
        ({"stream_usage": False, "defaults": {"temperature": 1}}, {"temperature": 0}, {"temperature": 0}),
        ({"stream_usage": False, "renamed": {"max_tokens": "max_new"}}, {"max_tokens": 5}, {"max_new": 5}),
        ({"stream_usage": False, "renamed": {"top_k": "k"}, "defaults": {"top_k": 5}}, {}, {"k": 5}),
        (
            {"stream_usage": False, "unsupported": ["tool_choice"]},
            {"tools": [1], "tool_choice": "auto"},
            {"tools": [1]},
        ),
        ({"unsupported": ["stream_options"]}, {}, {}),
        ({"stream_usage": False, "parallel_tool_calls": True}, {}, {}),
        (
            {"stream_usage": False, "parallel_tool_calls": False},
            {"tools": [1]},
            {"tools": [1], "parallel_tool_calls": False},
        ),
    ],
)
def test_fields_are_sent_as_the_server_takes_them(
    row: dict[str, Any], fields: dict[str, Any], sent: dict[str, Any]
) -> None:
    assert a_model(**row).request(fields) == {"model": "m-1", "stream": True, **sent}


def test_models_are_told_apart_when_they_differ_in_a_field_that_is_no_name() -> None:
    assert len({a_model(), a_model(vision=True), a_model()}) == 2
