"""Which AWS actions the code of a function can come to: what it calls, followed through the library by name.

More is followed than can happen (no condition is evaluated), never less: each name that a function of the code mentions
counts as called.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.functions import ROOT

LIBRARY = ROOT / "layers" / "runtime" / "python"
# Methods of clients, with the actions that they need.
_ACTIONS: dict[str, frozenset[str]] = {
    "get_item": frozenset({"dynamodb:GetItem"}),
    "batch_get_item": frozenset({"dynamodb:BatchGetItem"}),
    "update_item": frozenset({"dynamodb:UpdateItem"}),
    "put_item": frozenset({"dynamodb:PutItem"}),
    "query": frozenset({"dynamodb:Query"}),
    "transact_write_items": frozenset({"dynamodb:PutItem", "dynamodb:UpdateItem"}),
    "list_objects_v2": frozenset({"s3:ListBucket"}),
    "invoke": frozenset({"lambda:InvokeFunction"}),
    "get_object": frozenset({"s3:GetObject"}),
    "head_object": frozenset({"s3:GetObject"}),
    "put_object": frozenset({"s3:PutObject"}),
    "upload_fileobj": frozenset({"s3:PutObject", "s3:AbortMultipartUpload"}),
    "start_execution": frozenset({"states:StartExecution"}),
    "stop_execution": frozenset({"states:StopExecution"}),
    "describe_execution": frozenset({"states:DescribeExecution"}),
    "send_task_success": frozenset({"states:SendTaskSuccess"}),
    "send_task_failure": frozenset({"states:SendTaskFailure"}),
    "get_secret": frozenset({"secretsmanager:GetSecretValue"}),
    "put_events": frozenset({"events:PutEvents"}),
    "send_message": frozenset({"sqs:SendMessage"}),
    "change_message_visibility": frozenset({"sqs:ChangeMessageVisibility"}),
    "create_schedule": frozenset({"scheduler:CreateSchedule", "iam:PassRole"}),
}
_CLIENTS = frozenset({"client", "dynamodb", "s3", "events", "scheduler", "sqs", "parameters", "boto3"})


class Place(NamedTuple):
    """A function, a class or a constant of a module."""

    module: Path
    name: str


_FIRST_EVENT = Place(LIBRARY / "stepagent" / "store" / "journal.py", "first_event")


def actions_of_code(folder: Path) -> set[str]:
    """The actions that the modules of a function's folder can come to; those on a table with its logical id."""
    return {action for place in _reached(folder) for action in _asked_of_clients(place)}


def settings_of_code(folder: Path) -> set[str]:
    """The fields of the settings that they can come to read."""
    return {
        node.attr
        for place in _reached(folder)
        for node in _nodes(place)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Call) and _name(node.value.func) == "settings"
    }


def _reached(folder: Path) -> set[Place]:
    seen: set[Place] = set()
    waiting = [Place(path, name) for path in sorted(folder.glob("*.py")) for name in _definitions(path)]
    while waiting:
        place = waiting.pop()
        if place not in seen:
            seen.add(place)
            waiting += _mentioned(place)
    return seen


@cache
def _tree(module: Path) -> ast.Module:
    return ast.parse(module.read_text("utf-8"))


@cache
def _definitions(module: Path) -> dict[str, list[ast.stmt]]:
    """The statements of a module by the name that they define; those that define none stand under ""."""
    found: dict[str, list[ast.stmt]] = {}
    for statement in _tree(module).body:
        for name in _defined(statement):
            found.setdefault(name, []).append(statement)
    return found


def _defined(statement: ast.stmt) -> list[str]:
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.Import() | ast.ImportFrom():
            return []
        case ast.Assign(targets=targets):
            return [target.id for target in targets if isinstance(target, ast.Name)] or [""]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case _:
            return [""]


@cache
def _imported(module: Path) -> dict[str, Place]:
    """What the names that a module imports from the library stand for; a module's own name is ""."""
    found: dict[str, Place] = {}
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                whole = _file(f"{node.module}.{alias.name}", module)
                source = _file(node.module, module)
                if whole:
                    found[alias.asname or alias.name] = Place(whole, "")
                elif source:
                    found[alias.asname or alias.name] = Place(source, alias.name)
    return found


def _file(dotted: str, importer: Path) -> Path | None:
    for root in (LIBRARY, importer.parent):
        path = root.joinpath(*dotted.split("."))
        if path.with_suffix(".py").is_file():
            return path.with_suffix(".py")
        if (path / "__init__.py").is_file():
            return path / "__init__.py"
    return None


def _mentioned(place: Place) -> Iterator[Place]:
    imported, own = _imported(place.module), _definitions(place.module)
    if place.name in imported:  # passed on, as a package does
        yield imported[place.name]
    for node in _nodes(place):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in imported:
            yield Place(imported[node.value.id].module, node.attr)
        if isinstance(node, ast.Name) and node.id in imported and imported[node.id].name:
            yield imported[node.id]
        elif isinstance(node, ast.Name) and node.id in own:
            yield Place(place.module, node.id)


def _asked_of_clients(place: Place) -> Iterator[str]:
    for node in _nodes(place):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _is_client(node.func.value):
            method = node.func.attr
            if method == "get_paginator" and isinstance(node.args[0], ast.Constant):
                method = str(node.args[0].value)
            for action in _ACTIONS.get(method, ()):
                yield f"{action} {_table(place)}" if action.startswith("dynamodb:") else action
    if place == _FIRST_EVENT:  # written by whoever carries out the transaction
        yield f"dynamodb:PutItem {_table(place)}"


def _table(place: Place) -> str:
    return "JournalTable" if place.module == _FIRST_EVENT.module else "RecordTable"


def _nodes(place: Place) -> Iterator[ast.AST]:
    for statement in _definitions(place.module).get(place.name, []):
        yield from ast.walk(statement)


def _is_client(value: ast.expr) -> bool:
    """Whether it is `dynamodb()`, `boto3.client(…)` and the like, or the module of Powertools that reads secrets."""
    return _name(value.func if isinstance(value, ast.Call) else value) in _CLIENTS


def _name(value: ast.expr) -> str:
    return value.attr if isinstance(value, ast.Attribute) else value.id if isinstance(value, ast.Name) else ""
