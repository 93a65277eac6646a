"""The functions and their catalog as tests see them; as in Lambda, each function's folder is an import root."""

import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]


@cache
def load(function: str, module: str) -> ModuleType:
    """Imports `functions/<function>/<module>.py`, although other functions have modules of the same name.

    Raises:
        ModuleNotFoundError: The function has no such module.
    """
    folder = ROOT / "functions" / function
    for sibling in folder.glob("*.py"):
        _forget_unless_from(folder, sibling.stem)
    sys.path.insert(0, str(folder))
    try:
        return import_module(module)
    finally:
        sys.path.remove(str(folder))


def catalog_entry(tool: str) -> dict[str, Any]:
    """Reads a tool's row of the catalog."""
    entry: dict[str, Any] = yaml.safe_load((ROOT / "catalog" / "tools" / f"{tool}.yaml").read_text("utf-8"))
    return entry


def untitled(schema: dict[str, Any]) -> dict[str, Any]:
    """Leaves out the titles that pydantic adds to the parameters of a function."""
    for parameter in schema["properties"].values():
        parameter.pop("title", None)
    return schema


def _forget_unless_from(folder: Path, name: str) -> None:
    loaded = sys.modules.get(name)
    if loaded and Path(loaded.__file__ or "").parent != folder:
        del sys.modules[name]
