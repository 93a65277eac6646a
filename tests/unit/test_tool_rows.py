"""Rows of the catalog follow their functions, and keep what is their authors'."""

from pathlib import Path

import pytest
import yaml

from local import tool_rows
from local.tool_rows import load_tool, rows_of_functions, updated
from stepagent.tools import tool

ROW = """# A row of ours.
name: weather # as models call it
description: >-
  Something else,
  said before.

# Where it runs.
kind: lambda
target: tool_weather

parameters:
  type: object
  properties: {}
# No longer than that.
timeout_s: 10
idempotent: true # it only reads
"""

APP = '''
from stepagent.tools import tool
from helper import HELP

@tool
def handler(city: str) -> str:
    """Tell the weather."""
    return HELP
'''


@tool
def weather(city: str, days: int = 1, units: list[str] = ["C"]) -> None:  # noqa: B006 (never changed)
    """Tell the weather: yes, `no` & #maybe."""


def test_row_says_what_its_function_says_when_it_is_updated() -> None:
    row = yaml.safe_load(updated(ROW, weather))
    assert (row["description"], row["parameters"]) == (weather.description, weather.parameters)


def test_all_else_of_a_row_stays_byte_for_byte_when_it_is_updated() -> None:
    assert updated(ROW, weather).split("\n") == [
        "# A row of ours.",
        "name: weather # as models call it",
        "description: 'Tell the weather: yes, `no` & #maybe.'",
        "# Where it runs.",
        "kind: lambda",
        "target: tool_weather",
        "",
        "parameters:",
        "  type: object",
        "  properties:",
        "    city:",
        "      type: string",
        "    days:",
        "      type: integer",
        "      default: 1",
        "    units:",
        "      type: array",
        "      items:",
        "        type: string",
        "      default: [C]",
        "  required: [city]",
        "  additionalProperties: false",
        "# No longer than that.",
        "timeout_s: 10",
        "idempotent: true # it only reads",
        "",
    ]


def test_row_stays_as_it_is_when_it_says_so_in_another_form() -> None:
    once = updated(ROW, weather).replace("default: [C]", "default:\n      - C # the unit")
    assert updated(once, weather) == once


def test_fields_are_added_when_a_row_has_them_not() -> None:
    row = yaml.safe_load(updated("name: weather\nkind: lambda\ntarget: tool_weather\n", weather))
    assert row["parameters"] == weather.parameters


@pytest.mark.parametrize(
    "docstring",
    [
        "One.\n\n    Indented.\n  - list\n\nLast: # no comment",
        "x" * 300,
        "word " * 60,
        "- a: b\n\t tab",
        "yes",
        "'\"\\",
        "中文：" * 60,
    ],
)
def test_description_survives_yaml_whatever_it_says(docstring: str) -> None:
    def said() -> None: ...

    said.__doc__ = docstring
    made = tool(said)
    assert yaml.safe_load(updated(ROW, made))["description"] == made.description


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A product with one tool."""
    for name, text in {
        "catalog/tools/weather.yaml": ROW,
        "catalog/tools/ask.yaml": "name: ask\nkind: interactive\n",
        "functions/tool_weather/app.py": APP,
        "functions/tool_weather/helper.py": "HELP = 'sun'\n",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(tool_rows, "ROOT", tmp_path)
    return tmp_path


def test_command_rewrites_and_names_the_rows_that_were_stale(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tool_rows.main()
    tool_rows.main()
    assert capsys.readouterr().out.splitlines() == [
        "catalog/tools/weather.yaml",
        "Every row says what its function says.",
    ]
    assert yaml.safe_load((root / "catalog/tools/weather.yaml").read_text())["description"] == "Tell the weather."


def test_functions_have_modules_of_their_own_when_others_have_the_same_names(root: Path) -> None:
    ours = load_tool(root / "functions" / "tool_weather")
    assert ours
    assert ours.run({"city": "Oslo"}) == "sun"
    folder = root / "functions" / "other"
    folder.mkdir()
    (folder / "app.py").write_text(APP)
    (folder / "helper.py").write_text("HELP = 'rain'\n")
    theirs = load_tool(folder)
    assert theirs
    assert theirs.run({"city": "Oslo"}) == "rain"


def test_row_is_left_alone_when_its_function_is_no_tool(root: Path) -> None:
    (root / "functions/tool_weather/app.py").write_text("def handler(event, context): ...\n")
    tool_rows.main()
    assert (root / "catalog/tools/weather.yaml").read_text() == ROW


def test_rows_are_those_that_functions_of_the_stack_run(root: Path) -> None:
    assert rows_of_functions(root) == [(root / "catalog/tools/weather.yaml", root / "functions/tool_weather")]


@pytest.mark.parametrize(
    ("app", "words"),
    [
        (APP.replace("city: str", "city"), "tool_weather/app.py cannot be used: .* parameter city has no type"),
        ("import absent_module", "tool_weather/app.py cannot be used: No module named 'absent_module'"),
        ("", "tool_weather/app.py cannot be used: .*handler"),
        (APP.replace('"""Tell the weather."""', ""), "tool_weather/app.py needs a docstring"),
    ],
)
def test_command_says_what_is_wrong_and_writes_nothing_when_a_function_cannot_be_used(
    root: Path, app: str, words: str
) -> None:
    (root / "functions/tool_weather/app.py").write_text(app)
    with pytest.raises(SystemExit, match=words):
        tool_rows.main()
    assert (root / "catalog/tools/weather.yaml").read_text() == ROW
