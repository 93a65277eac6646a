"""What a new tool consists of: a small function that works, and what makes a tool of it."""

from pathlib import Path

_APP = '''"""The tool `{name}`."""

from typing import Annotated

from pydantic import Field

from stepagent.tools import ToolError, tool


@tool
def handler(query: Annotated[str, Field(max_length=200, description="What to look up.")]) -> dict[str, str]:
    """Look up {words}."""
    if not query.strip():
        raise ToolError("Say what to look up.")  # the model reads this and may try again
    return {{"query": query, "answer": "An example from tool_{name}/app.py."}}
'''

_ROW = """name: {name}
description: Look up {words}.
kind: lambda
target: tool_{name}
parameters:
  type: object
  properties:
    query:
      type: string
      maxLength: 200
      description: What to look up.
  required: [query]
  additionalProperties: false
timeout_s: 10 # the same as the function's Timeout in template.yaml
idempotent: true # false if a second run of the same call would do something twice
"""

_TEST = '''"""The tool `{name}`."""

import pytest

from stepagent.tools import ToolError
from tests.functions import load

handler = load("tool_{name}", "app").handler


def test_{name}_answers_what_was_asked() -> None:
    assert handler.run({{"query": "Oslo"}})["query"] == "Oslo"


def test_{name}_tells_the_model_what_is_missing_when_nothing_is_asked() -> None:
    with pytest.raises(ToolError, match="what to look up"):
        handler.run({{"query": " "}})
'''

_EVENT = '{{"run_id": "run_sample_1", "call_id": "call_1_1_0"}}\n'

_FUNCTION = """
  {logical_id}:
    Type: AWS::Serverless::Function
    Properties:
      FunctionName: !Sub ${{AWS::StackName}}-tool_{name}
      CodeUri: functions/tool_{name}
      Timeout: 10
      Policies: [*tool_policy]
"""

_FILES = {
    "functions/tool_{name}/app.py": _APP,
    "catalog/tools/{name}.yaml": _ROW,
    "events/tool_{name}/first_call.json": _EVENT,
    "tests/unit/test_{name}.py": _TEST,
}


def new_files(name: str) -> dict[Path, str]:
    """The files of a tool of this name, by their paths in the repository."""
    fields = {"name": name, "words": name.replace("_", " ")}
    return {Path(path.format(**fields)): text.format(**fields) for path, text in _FILES.items()}


def logical_id(name: str) -> str:
    """The function's name in the template."""
    return "".join(word.capitalize() for word in ("tool", *name.split("_"), "function"))


def function_block(name: str) -> str:
    """The function's lines in the template, after an empty one."""
    return _FUNCTION.format(name=name, logical_id=logical_id(name))
