"""Where a tool is entered beside its own files: the template and an agent. What people wrote there stays as it is."""

import re
from collections.abc import Iterator
from typing import Any

import yaml
from samtranslator.yaml_helper import yaml_parse

from local.tool_files import function_block, logical_id

_ROLE = "AgentStateMachineRole"
_LINES = r".*\n(?:    .*\n|\n(?=    ))*"  # of a resource: the first, and those that are indented further
_FUNCTION_OF_A_TOOL = re.compile(rf"^  Tool\w*Function:{_LINES}", re.MULTILINE)
_ROLE_OF_THE_LOOP = re.compile(rf"^  {_ROLE}:{_LINES}", re.MULTILINE)
_INVOKED = re.compile(r"^( *- !GetAtt )Tool\w*Function\.Arn\n", re.MULTILINE)
_TOOLS_IN_ONE_LINE = re.compile(r"^(tools: *\[)([^\]]*)\]", re.MULTILINE)
_TOOLS_IN_LINES = re.compile(r"^tools:.*\n(?: *(?:#.*)?\n| *- .*\n| +\S.*\n)*?( *)- .*\n(?=[^\s-]|\Z)", re.MULTILINE)


class NoPlace(ValueError):
    """The file is not laid out so that something could be added; the message says what is missing."""


def with_function(template: str, name: str) -> str:
    """The template with a tool's function behind the last one, and with the right of the loop to invoke it.

    Raises:
        NoPlace: there is no tool yet, or no role that invokes one.
    """
    functions, role = list(_FUNCTION_OF_A_TOOL.finditer(template)), _ROLE_OF_THE_LOOP.search(template)
    invoked = list(_INVOKED.finditer(role[0])) if role else []
    if not functions or not role or not invoked:
        raise NoPlace(f"the template has no tool to put this one behind, or {_ROLE} invokes none")
    added = {
        functions[-1].end(): function_block(name),
        role.start() + invoked[-1].end(): f"{invoked[-1][1]}{logical_id(name)}.Arn\n",
    }
    changed = template
    for place, text in sorted(added.items(), reverse=True):
        changed = changed[:place] + text + changed[place:]
    if _parts(changed) != _parts(template) | {f"function {logical_id(name)}", f"invoked {logical_id(name)}"}:
        raise NoPlace("the template is not laid out as usual")
    return changed


def _parts(template: str) -> set[str]:
    """The resources of a template, and the functions that the loop may invoke."""
    resources: dict[str, Any] = yaml_parse(template)["Resources"]
    policies = resources[_ROLE]["Properties"]["Policies"]
    statements = [statement for policy in policies for statement in policy["PolicyDocument"]["Statement"]]
    arns = [arn for statement in statements if statement["Resource"] != "*" for arn in statement["Resource"]]
    named = [arn["Fn::GetAtt"][0] for arn in arns if "Fn::GetAtt" in arn]  # one that starts from snapshots is no tool
    return {f"function {name}" for name in resources} | {f"invoked {name}" for name in named}


def with_tool(agent: str, name: str) -> str:
    """An agent's row with one tool more, at the end of its list."""
    row = yaml.safe_load(agent)
    wanted = {**row, "tools": [*(row.get("tools") or ()), name]}
    return next(text for text in _attempts(agent, name, wanted) if _says(text, wanted))


def _says(text: str, row: dict[str, Any]) -> bool:
    try:
        return bool(yaml.safe_load(text) == row)
    except yaml.YAMLError:
        return False


def _attempts(agent: str, name: str, wanted: dict[str, Any]) -> Iterator[str]:
    """For a list in one line, one below the other, and none; whatever is left is written anew."""
    yield _TOOLS_IN_ONE_LINE.sub(lambda found: f"{found[1]}{_listed(found[2], name)}]", agent)
    yield _TOOLS_IN_LINES.sub(lambda found: f"{found[0]}{found[1]}- {name}\n", agent)
    yield f"{agent.rstrip()}\ntools: [{name}]\n"
    yield yaml.safe_dump(wanted, sort_keys=False, allow_unicode=True)


def _listed(names: str, name: str) -> str:
    return ", ".join(filter(None, [names.strip(", \n"), name]))
