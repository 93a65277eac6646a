"""Drives what needs no loop: the request that is rendered for a provider, and the arguments that come back."""

import copy
import json
import re
import time
from collections.abc import Iterator, Sequence
from typing import Any

import yaml
from pydantic import ValidationError

from stepagent.errors import ToolError
from stepagent.history import estimate_tokens, fit, to_messages
from stepagent.llm.arguments import parse_arguments
from stepagent.llm.function_call import FunctionCall
from stepagent.llm.names import aliases
from stepagent.llm.prompt_call import PromptCall
from stepagent.llm.registry import ModelSpec
from stepagent.llm.reply import Mode, ModelRequest, ModeName
from stepagent.llm.tool_choice import ToolChoice
from stepagent.messages import Message, UserMessage
from stepagent.tool_specs import ToolSpec
from tests.conformance.cases import TARGET, Case, Json, Unsupported, tools_of
from tests.conformance.evidence import Evidence, Executed
from tests.conformance.imported import imported
from tests.conformance.stage import provider_fields
from tests.conformance.wire import Asked
from tests.local_loop import ROOT

_ALL = 10**9
_MODES: dict[str, ModeName] = {"prompt_text": "prompt_call", "functions": "function_call"}


def drive_tools(case: Case) -> Iterator[Evidence]:
    """The tools as the provider gets them; then what the model returns, as the tool gets it."""
    given = case.input
    raw = copy.deepcopy(given["tools_raw"])
    model = model_of(str(given.get("provider", "openai")))
    evidence = Evidence(provider=str(given.get("provider", "openai")), schemas_given=given["tools_raw"])
    began = time.monotonic()
    try:
        tools = [_tool(row) for row in raw]
    except ValidationError as error:
        raise Unsupported(f"ToolSpec refuses the tool: {error.errors()[0]['msg']}") from error
    names = aliases([tool.name for tool in tools])
    fields = ToolChoice(model).render(ModelRequest("", [UserMessage(text="q")], tools), names)
    evidence.took_ms = (time.monotonic() - began) * 1000
    evidence.facts["caller_unchanged"] = raw == given["tools_raw"]
    evidence.requests = [asked(model.request(fields))]
    evidence.sent_tools = [each["function"] for each in fields["tools"]]
    if "model_arguments" in given:
        _call(evidence, tools[0], given["model_arguments"])
    yield evidence


def _tool(row: Json) -> ToolSpec:
    values = {"description": "", "kind": "lambda", "target": TARGET, **row.get("function", row)}
    return ToolSpec.model_validate({name: value for name, value in values.items() if name in ToolSpec.model_fields})


def _call(evidence: Evidence, tool: ToolSpec, written: Any) -> None:
    text = written if isinstance(written, str) else json.dumps(written)
    try:
        arguments = parse_arguments(tool, text)
    except ToolError as error:
        evidence.facts["refused"] = error.message
    else:
        evidence.executed.append(Executed(tool.name, arguments, "", json.dumps(arguments)))


def drive_history(case: Case) -> Iterator[Evidence]:
    """The next request from stored messages. Where a case tells the cut in words of its own, every cut is tried."""
    given = case.input
    model = model_of(str(given.get("provider", "openai")))
    system, entries = imported(given["messages"], model.server)
    messages = to_messages(entries)
    for label, budget in _budgets(given.get("trim"), messages, given["messages"]):
        fitting = fit(messages, budget)
        yield rendered(given, model, system, fitting, label)
    for provider in case.asserts.get("per_provider", {}):
        other = model_of(str(provider))
        yield rendered(given, other, system, messages, f"provider {provider}")


def rendered(given: Json, model: ModelSpec, system: str, messages: Sequence[Message], label: str) -> Evidence:
    tools = tools_of(given)
    names = aliases([tool.name for tool in tools])
    request = ModelRequest(system, messages, tools, vision=bool(given.get("vision", True)))
    fields = _mode(str(given.get("mode", "")), model).render(request, names)
    return Evidence(label=label, provider=label, requests=[asked(model.request(fields))])


def _mode(named: str, model: ModelSpec) -> Mode:
    match _MODES.get(named, named):
        case "prompt_call":
            return PromptCall("")
        case "function_call":
            return FunctionCall(model)
    return ToolChoice(model)


def _budgets(trim: Any, messages: Sequence[Message], raw: Sequence[Json]) -> Iterator[tuple[str, int]]:
    """The budgets in tokens that stand for a trim: of messages, of tokens, between two results, or told otherwise."""
    if trim is None:
        yield "", _ALL
        return
    if isinstance(trim, dict):
        tokens = trim.get("max_tokens", trim.get("token_budget", trim.get("budget_tokens")))
        trim = f"{tokens} tokens" if tokens is not None else f"newest {trim.get('max_messages', trim.get('keep', 1))}"
    words = str(trim)
    if number := re.search(r"(\d+)\s*tokens?|tokens?\D{1,12}(\d+)", words):
        yield words, int(number[1] or number[2])
    elif newest := re.search(r"newest (\d+)|last (\d+)", words):
        yield words, _tokens(messages[-int(newest[1] or newest[2]) :])
    elif between := re.search(r"between (\S+) and (\S+)", words):
        yield words, _tokens(messages[_result_of(raw, between[2]) - sum(m["role"] == "system" for m in raw) :])
    for kept in range(len(messages) + 1):
        yield f"{words} (newest {kept})", _tokens(messages[len(messages) - kept :])
    for size in range(0, _tokens(messages) + 1, max(1, _tokens(messages) // 50)):
        yield f"{words} ({size} tokens)", size


def _tokens(messages: Sequence[Message]) -> int:
    return sum(estimate_tokens(message) for message in messages)


def _result_of(raw: Sequence[Json], call_id: str) -> int:
    return next((n for n, m in enumerate(raw) if m.get("tool_call_id") == call_id), len(raw))


def model_of(provider: str) -> ModelSpec:
    """A model of the provider that a case names."""
    providers: Json = yaml.safe_load((ROOT / "catalog" / "models.yaml").read_text("utf-8"))["providers"]
    row = provider_fields(provider, providers)
    name = str(row.pop("provider"))
    fields = {"base_url": f"http://{name}.invalid/v1", **providers[name], **row}
    return ModelSpec.model_validate({"name": provider, "provider_model": provider, "vendor": name, **fields})


def asked(fields: Json) -> Asked:
    raw = json.dumps(fields, ensure_ascii=False)
    return Asked(0, raw.encode("utf-8", "surrogatepass"), fields)
