"""The state machines' definitions as tests read them, and a small interpreter of them."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from jsonata import Jsonata
from samtranslator.yaml_helper import yaml_parse

from tests.functions import ROOT

Json = dict[str, Any]
PATH = ROOT / "statemachine" / "agent.asl.yaml"
PLAN_PATH = ROOT / "statemachine" / "plan.asl.yaml"


class Scope(NamedTuple):
    """States that can reach each other: the machine's own, or those of one Map."""

    start: str
    states: Mapping[str, Json]


class TaskFailed(Exception):
    """A task's function failed with an error of this name."""


_ENDLESS = 10_000  # state entries; a run of 30 turns with 10 calls each has 700
Answer = Callable[[str, Json], Json]


@cache
def definition(path: Path = PATH) -> Json:
    parsed: Json = yaml_parse(path.read_text())
    return parsed


def scopes(machine: Json | None = None) -> Iterator[Scope]:
    """The machine's scope and, in turn, that of every Map in it."""
    machine = machine or definition()
    yield Scope(machine["StartAt"], machine["States"])
    for state in machine["States"].values():
        if "ItemProcessor" in state:
            yield from scopes(state["ItemProcessor"])


def all_states(path: Path = PATH) -> dict[str, Json]:
    return {name: state for scope in scopes(definition(path)) for name, state in scope.states.items()}


def targets(state: Json) -> list[str]:
    """The states that may follow."""
    branches = [*state.get("Choices", ()), *state.get("Catch", ()), state]
    found = [branch["Next"] for branch in branches if "Next" in branch]
    return [*found, state["Default"]] if "Default" in state else found


def reached(scope: Scope) -> set[str]:
    """The names that are led to from where a scope starts, whether or not there are such states."""
    found, ahead = set[str](), [scope.start]
    while ahead:
        name = ahead.pop()
        if name not in found:
            found.add(name)
            ahead += targets(scope.states[name])
    return found


@dataclass
class Execution:
    """Walks the definition; `answer` stands for the functions: the name of the task and its payload to its result."""

    answer: Answer
    path: Path = PATH
    entered: list[str] = field(default_factory=list)
    inputs: list[tuple[str, Json]] = field(default_factory=list)

    def run(self, given: Json) -> Json:
        return self._walk(next(scopes(definition(self.path))), given, {"Execution": {"Input": given}})

    def _walk(self, scope: Scope, given: Json, context: Json) -> Json:
        name: str | None = scope.start
        while name:
            self.entered.append(name)
            self.inputs.append((name, given))
            assert len(self.entered) < _ENDLESS, "the definition goes round in circles"
            name, given = self._step(name, scope.states[name], given, context)
        return given

    def _step(self, name: str, state: Json, given: Json, context: Json) -> tuple[str | None, Json]:
        seen: Json = {"input": given, "context": context}
        match state["Type"]:
            case "Choice":
                taken = next(
                    (c for c in state["Choices"] if evaluate(c["Condition"], seen)), {"Next": state.get("Default")}
                )
                return taken["Next"], evaluate(taken.get("Output", given), seen)
            case "Wait":
                assert isinstance(evaluate(state["Seconds"], seen), int)
                return state["Next"], given
            case "Succeed":
                return None, given
            case "Fail":
                raise TaskFailed(evaluate(state["Error"], seen))
        try:
            result = self._task(name, state, seen) if state["Type"] == "Task" else self._map(state, seen)
        except TaskFailed as failure:
            [catch] = state["Catch"]
            return catch["Next"], evaluate(catch["Output"], seen | {"errorOutput": {"Error": str(failure)}})
        return state.get("Next"), evaluate(state.get("Output", result), seen | {"result": result})

    def _task(self, name: str, state: Json, seen: Json) -> Json:
        seen = seen | {"context": {**seen["context"], "Task": {"Token": f"token of {name}"}}}
        assert evaluate(state["TimeoutSeconds"], seen) > 0
        answer = self.answer(name, evaluate(state["Arguments"], seen)["Payload"])
        return answer if state["Resource"].endswith(".waitForTaskToken") else {"Payload": answer}

    def _map(self, state: Json, seen: Json) -> Json:
        processor = state["ItemProcessor"]
        scope = Scope(processor["StartAt"], processor["States"])
        for item in evaluate(state["Items"], seen):
            context = {**seen["context"], "Map": {"Item": {"Value": item}}}
            given = evaluate(state["ItemSelector"], {**seen, "context": context})
            self._walk(scope, given, seen["context"])
        return {}


def evaluate(value: Any, seen: Json) -> Any:
    """Replaces every `{% expression %}`; an undefined one is an error, as in the service."""
    match value:
        case str() if found := re.fullmatch(r"\{%(.*)%\}", value, re.DOTALL):
            expression = Jsonata(found[1])
            expression.assign("states", seen)
            result = expression.evaluate(None)
            assert result is not None, f"{value} is undefined"
            return result
        case list():
            return [evaluate(each, seen) for each in value]
        case dict():
            return {key: evaluate(each, seen) for key, each in value.items()}
    return value
