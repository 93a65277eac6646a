"""Case files: read, and turned into tools and agents of ours."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stepagent.agents import AgentSpec, Limits
from stepagent.tool_specs import ToolSpec

Json = dict[str, Any]

FOLDER = Path(__file__).parent / "cases"
TARGET = "tool_case"  # the one function behind all tools of the cases
_MODES = {
    "prompt_text": "prompt_call",
    "text": "prompt_call",
    "functions": "function_call",
    "function_call": "function_call",
    "native": "tool_choice",
    "tools": "tool_choice",
}


class Unsupported(Exception):
    """The product, or this runner, has no such thing: the case fails, and the message says why."""


class Skipped(Exception):
    """Only AWS itself can show it."""


@dataclass(frozen=True)
class Case:
    """One line of a case file."""

    id: str
    group: str
    input: Json
    expected: Json

    @property
    def kind(self) -> str:
        return str(self.input.get("kind", ""))

    @property
    def asserts(self) -> Json:
        return dict(self.expected.get("assert", {}))

    @property
    def acceptable(self) -> list[str]:
        return list(self.expected.get("acceptable", []))


def load_cases(path: Path) -> list[Case]:
    lines = [line for line in path.read_text("utf-8").splitlines() if line.strip()]
    rows: list[Json] = [json.loads(line) for line in lines]
    return [Case(str(r["id"]), str(r.get("group", "")), r["input"], r["expected"]) for r in rows]


def catalog() -> Json:
    tools: Json = json.loads((FOLDER / "catalog.json").read_text("utf-8"))
    return tools


def tools_of(given: Json) -> tuple[ToolSpec, ...]:
    """The tools that a case names, with the terms that it sets for them."""
    rows = catalog()
    if missing := [name for name in given.get("tools", []) if name not in rows]:
        raise Unsupported(f"the catalog has no tool {missing[0]!r}")
    stops = set(given.get("stop_tools", []))
    return tuple(_tool(name, rows[name], given, stops) for name in given.get("tools", []))


def _tool(name: str, row: Json, given: Json, stops: set[str]) -> ToolSpec:
    values: Json = {"name": name, "description": row["description"], "parameters": row["parameters"]}
    if row.get("interactive"):
        values |= {"kind": "interactive"}
        values["timeout_s"] = math.ceil(given.get("expire_after_s", 3600))
    else:
        values |= {"kind": "lambda", "target": TARGET}
        values["timeout_s"] = max(1, math.ceil(given.get("tool_timeout_ms", 20_000) / 1000))
    values["idempotent"] = bool(row.get("idempotent", not row.get("side_effects", False)))
    values["returns_directly"] = bool(row.get("stop")) or name in stops
    if "max_tool_content_chars" in given:
        values["result_limit_bytes"] = given["max_tool_content_chars"]
    return ToolSpec.model_validate(values)


def event_of(given: Json) -> Json | None:
    """The event of AWS that a case holds, under whatever name."""
    events = [value for name, value in given.items() if isinstance(value, dict) and name != "variants"]
    return given["event"] if isinstance(given.get("event"), dict) else next(iter(events), None)


def agent_of(given: Json, model: str, tools: tuple[ToolSpec, ...], mode: str | None = None) -> AgentSpec:
    """An agent as a case wants it; a setting that agents of the product do not have makes the case fail."""
    fields: Json = {"name": "agent", "instructions": "Be helpful.", "model": model}
    fields |= {"tools": tuple(tool.name for tool in tools), "limits": _limits(given)}
    if wanted := mode or given.get("mode"):
        fields["mode"] = _MODES.get(str(wanted), str(wanted))
    if "tool_choice" in given:
        choice = given["tool_choice"]
        fields["tool_choice"] = choice["function"]["name"] if isinstance(choice, dict) else choice
    return AgentSpec.model_validate(fields)


def _limits(given: Mapping[str, Any]) -> Limits:
    named = {name: given[name] for name in Limits.model_fields if name in given}
    return Limits.model_validate(named)
