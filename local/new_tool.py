"""Make a tool that works at once: `python -m local.new_tool NAME [AGENT]`.

Everything is looked at before anything is written, and what was written is taken back where a part of it fails.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import yaml
from pydantic import ValidationError

from local.tool_files import logical_id, new_files
from local.tool_places import NoPlace, with_function, with_tool
from stepagent.agents import AgentSpec
from stepagent.row_problems import in_words

ROOT = Path(__file__).resolve().parent.parent
TEMPLATE, AGENTS, TOOLS = Path("template.yaml"), Path("catalog", "agents"), Path("catalog", "tools")
USUAL_AGENT, NO_AGENT = "assistant", "none"
MAX_NAME_CHARS = 40  # with a stack's name before it, it is the name of a function, which has 64

_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


class Refused(RuntimeError):
    """The tool cannot be made; the message says what to do instead."""


class Plan(NamedTuple):
    """All that will be written, by path in the repository: new files, and the new texts of files that there are."""

    new: Mapping[Path, str]
    changed: Mapping[Path, str]


def main() -> None:
    """Make the tool, and say what was written and what comes next."""
    name, agent = [*sys.argv[1:3], "", ""][:2]
    try:
        plan = plan_tool(ROOT, name, agent or USUAL_AGENT)
    except Refused as refused:
        sys.exit(str(refused))
    carry_out(ROOT, plan)
    print("\n".join(_report(name, plan)))


def plan_tool(root: Path, name: str, agent: str) -> Plan:
    """What makes a tool of this name, offered to this agent.

    Raises:
        Refused: the name cannot be used, or there is no such agent.
    """
    if len(name) > MAX_NAME_CHARS or not _NAME.fullmatch(name):
        raise Refused(
            "Name the tool by small letters, digits and single underscores, such as make new-tool NAME=weather; "
            f"a name has {MAX_NAME_CHARS} characters at most."
        )
    new, template = new_files(name), (root / TEMPLATE).read_text("utf-8")
    for taken in _taken(root, name, new, template):
        raise Refused(f"{taken}. Choose another name, such as make new-tool NAME=my_{name}")
    try:
        changed = {TEMPLATE: with_function(template, name)}
    except NoPlace as error:
        raise Refused(f"{TEMPLATE} cannot be changed: {error}. Nothing was written.") from error
    return Plan(new, changed | ({} if agent == NO_AGENT else _offered(root, agent, name)))


def carry_out(root: Path, plan: Plan) -> None:
    """Writes everything, or leaves everything as it was."""
    before = {root / path: (root / path).read_bytes() for path in plan.changed}
    made: list[Path] = []
    try:
        for path, text in plan.new.items():
            missing = [folder for folder in (root / path).parents if not folder.exists()]
            for folder in reversed(missing):
                folder.mkdir()
                made.append(folder)
            made.append(root / path)
            (root / path).write_text(text, "utf-8")
        for path, text in plan.changed.items():
            (root / path).write_text(text, "utf-8")
    except BaseException:
        for path in reversed(made):
            path.rmdir() if path.is_dir() else path.unlink(missing_ok=True)
        for path, content in before.items():
            path.write_bytes(content)
        raise


def _taken(root: Path, name: str, new: Mapping[Path, str], template: str) -> Iterator[str]:
    """Whatever has the name already."""
    for path in sorted((root / TOOLS).glob("*.yaml")):
        if path.stem == name or yaml.safe_load(path.read_text("utf-8"))["name"] == name:
            yield f"There is a tool {name} already, in {path.relative_to(root)}"
    for path in [*new, *(path.parent for path in new if path.parent.name == f"tool_{name}")]:
        if (root / path).exists():
            yield f"{path} is there already"
    if re.search(rf"^  {logical_id(name)}:", template, re.MULTILINE):
        yield f"{TEMPLATE} has a function {logical_id(name)} already"


def _offered(root: Path, agent: str, name: str) -> dict[Path, str]:
    """The agent's file with one tool more."""
    path = AGENTS / f"{agent}.yaml"
    if not (root / path).is_file():
        names = ", ".join(sorted(each.stem for each in (root / AGENTS).glob("*.yaml")))
        raise Refused(f"There is no agent {agent}; there are {names}. AGENT={NO_AGENT} offers the tool to no agent.")
    text = with_tool((root / path).read_text("utf-8"), name)
    try:
        AgentSpec.model_validate(yaml.safe_load(text))
    except ValidationError as error:
        raise Refused(f"{path} cannot have this tool: {in_words(error, AgentSpec)}.") from error
    return {path: text}


def _report(name: str, plan: Plan) -> Iterator[str]:
    yield from (f"  new      {path}" for path in plan.new)
    yield from (f"  changed  {path}" for path in plan.changed)
    yield f"\nIt works already. Now edit functions/tool_{name}/app.py, then"
    yield "  make tool-rows   brings its row up to date with the function"
    yield "  make test        checks everything"
    if len(plan.changed) > 1:
        yield "  make chat        talks to the agent that has it"
    else:
        yield f"  and offer it to an agent: add {name} to tools in {AGENTS}/*.yaml"


if __name__ == "__main__":
    main()
