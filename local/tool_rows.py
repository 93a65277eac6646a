"""Bring rows of the catalog up to date with their functions: `python -m local.tool_rows`.

What a model is told of a tool of kind lambda is its function's docstring and signature. A row repeats both, so that
they are known without the function; all else of a row, and its comments, is its author's.
"""

import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml

from stepagent.tools.decorator import Tool

ROOT = Path(__file__).resolve().parent.parent
_KEY = re.compile(r"(\w+):")
_LONG_CHARS = 80


class FunctionUnusable(RuntimeError):
    """A tool's function cannot be imported, or says nothing; the message names it."""


def main() -> None:
    """Rewrite the rows that say otherwise than their functions, and name them."""
    try:
        changed = [row for row, folder in rows_of_functions(ROOT) if _rewrite(row, folder)]
    except FunctionUnusable as error:
        sys.exit(str(error))
    print("\n".join(str(row.relative_to(ROOT)) for row in changed) or "Every row says what its function says.")


def rows_of_functions(root: Path) -> list[tuple[Path, Path]]:
    """The rows that functions of the stack run, each with its function's folder."""
    paths = sorted((root / "catalog" / "tools").glob("*.yaml"))
    rows = [(path, yaml.safe_load(path.read_text("utf-8"))) for path in paths]
    return [(path, root / "functions" / row["target"]) for path, row in rows if row["kind"] == "lambda"]


def load_tool(folder: Path) -> Tool | None:
    """Imports a function as Lambda does, with its folder as an import root. None where its handler is no tool.

    Raises:
        FunctionUnusable: it cannot be imported, or has no docstring.
    """
    names = {path.stem for path in folder.glob("*.py")}
    others = {name: sys.modules.pop(name) for name in names & sys.modules.keys()}
    sys.path.insert(0, str(folder))
    try:
        handler = import_module("app").handler
    except Exception as error:  # what an import runs is anybody's
        raise FunctionUnusable(f"{folder.name}/app.py cannot be used: {error}") from error
    finally:
        sys.path.remove(str(folder))
        for name in names & sys.modules.keys():
            del sys.modules[name]
        sys.modules |= others
    if not isinstance(handler, Tool):
        return None
    if not handler.description:
        raise FunctionUnusable(f"{folder.name}/app.py needs a docstring: it tells the model what the tool does.")
    return handler


def updated(text: str, tool: Tool) -> str:
    """A row's text with the tool's own description and parameters; where they stand already, as it is."""
    row = yaml.safe_load(text)
    for name, value in {"description": tool.description, "parameters": tool.parameters}.items():
        if row.get(name) != value:
            text = _with(text, name, value)
    return text


def _rewrite(path: Path, folder: Path) -> bool:
    """Whether the row was stale."""
    tool, text = load_tool(folder), path.read_text("utf-8")
    changed = updated(text, tool) if tool else text
    if changed != text:
        path.write_text(changed, "utf-8")
    return changed != text


def _with(text: str, name: str, value: Any) -> str:
    """The text with another value of one key, or with one more key."""
    parts = _parts(text)
    written = yaml.dump({name: value}, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)
    places = [number for number, part in enumerate(parts) if (key := _KEY.match(part)) and key[1] == name]
    parts[slice(places[0], places[0] + 1) if places else slice(len(parts), None)] = [written]
    return "".join(parts)


def _parts(text: str) -> list[str]:
    """The text cut before each line that begins at its margin, which keys and comments of the row itself do."""
    return re.split(r"^(?=[^\s])", text, flags=re.MULTILINE)


class _Dumper(yaml.SafeDumper):
    """YAML as people write it: long text folded, text of several lines as it stands, lists of words in one line."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.Node:
    style = "|" if "\n" in value else ">" if len(value) > _LONG_CHARS else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


def _list(dumper: yaml.SafeDumper, value: list[Any]) -> yaml.Node:
    plain = not any(isinstance(item, dict | list) for item in value)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", value, flow_style=plain)


_Dumper.add_representer(str, _text)
_Dumper.add_representer(list, _list)


if __name__ == "__main__":
    main()
