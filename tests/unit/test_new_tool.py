"""`make new-tool`: what it writes, what it refuses, and that it writes all or nothing."""

import ast
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from samtranslator.yaml_helper import yaml_parse

from local import new_tool
from local.new_tool import Refused, carry_out, plan_tool
from local.tool_files import new_files
from local.tool_places import NoPlace, with_function, with_tool
from local.tool_rows import load_tool, updated
from stepagent.tool_specs import ToolSpec
from tests.functions import ROOT

LONGEST = "w" * new_tool.MAX_NAME_CHARS
Snapshot = Callable[[], dict[Path, bytes]]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The parts of the product that a new tool touches."""
    root = tmp_path / "product"
    shutil.copytree(ROOT / "catalog", root / "catalog")
    for name in ("functions", "events", "tests/unit"):
        (root / name).mkdir(parents=True)
    shutil.copy(ROOT / "template.yaml", root)
    (root / "tests" / "unit" / "test_catalog.py").touch()
    monkeypatch.setattr(new_tool, "ROOT", root)
    return root


@pytest.fixture
def snapshot(root: Path) -> Snapshot:
    """All files as they stand."""
    return lambda: {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


def make(root: Path, name: str = "weather", agent: str = "assistant") -> None:
    carry_out(root, plan_tool(root, name, agent))


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", ["new_tool", *arguments])
    new_tool.main()


def test_files_of_a_tool_are_written_and_nothing_else_is_when_it_is_made(root: Path, snapshot: Snapshot) -> None:
    before = snapshot()
    make(root)
    after = snapshot()
    assert sorted(str(path.relative_to(root)) for path in after.keys() - before.keys()) == [
        "catalog/tools/weather.yaml",
        "events/tool_weather/first_call.json",
        "functions/tool_weather/app.py",
        "tests/unit/test_weather.py",
    ]
    assert sorted(str(path.relative_to(root)) for path in before if before[path] != after[path]) == [
        "catalog/agents/assistant.yaml",
        "template.yaml",
    ]


def test_template_has_the_function_and_lets_the_loop_invoke_it_when_a_tool_is_made(root: Path) -> None:
    before = yaml_parse((root / "template.yaml").read_text())["Resources"]
    make(root, "air_quality")
    after = yaml_parse((root / "template.yaml").read_text())["Resources"]
    function = after.pop("ToolAirQualityFunction")
    assert function["Properties"] == {
        "FunctionName": {"Fn::Sub": "${AWS::StackName}-tool_air_quality"},
        "CodeUri": "functions/tool_air_quality",
        "Timeout": 10,
        "Policies": before["ToolCurrentTimeFunction"]["Properties"]["Policies"],
    }
    [invoking] = [
        policy["PolicyDocument"]["Statement"][0]["Resource"]
        for policy in after["AgentStateMachineRole"]["Properties"]["Policies"]
        if policy["PolicyName"] == "invoke"
    ]
    assert invoking.pop() == {"Fn::GetAtt": ["ToolAirQualityFunction", "Arn"]}
    assert after == before


def test_template_keeps_its_comments_and_layout_when_a_tool_is_made(root: Path) -> None:
    before = (root / "template.yaml").read_text().splitlines()
    make(root)
    after = iter((root / "template.yaml").read_text().splitlines())
    assert all(line in after for line in before)


def test_row_says_what_the_new_function_says(root: Path) -> None:
    make(root)
    text = (root / "catalog/tools/weather.yaml").read_text()
    made = load_tool(root / "functions/tool_weather")
    assert made
    assert updated(text, made) == text
    assert ToolSpec.model_validate(yaml.safe_load(text)).target == "tool_weather"


def test_new_function_works_at_once(root: Path) -> None:
    make(root)
    made = load_tool(root / "functions/tool_weather")
    assert made
    assert made.run({"query": "Oslo"})["query"] == "Oslo"


@pytest.mark.parametrize("name", ["x", "weather", LONGEST])
@pytest.mark.parametrize("command", [["format", "--check"], ["check"]], ids=lambda command: command[0])
def test_code_is_in_the_one_format_however_long_the_name_is(name: str, command: list[str]) -> None:
    for path, text in new_files(name).items():
        if path.suffix == ".py":
            checked = [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(path), "-"]
            done = subprocess.run(checked, check=False, cwd=ROOT, input=text, text=True, capture_output=True)
            assert done.returncode == 0, done.stdout + done.stderr


def test_readme_shows_the_function_that_is_written() -> None:
    app = new_files("weather")[Path("functions/tool_weather/app.py")]
    assert app[app.index("@tool") :] in (ROOT / "README.md").read_text()


def test_new_test_has_tests_when_a_tool_is_made(root: Path) -> None:
    make(root)
    module = ast.parse((root / "tests/unit/test_weather.py").read_text())
    assert [each.name for each in module.body if isinstance(each, ast.FunctionDef)] == [
        "test_weather_answers_what_was_asked",
        "test_weather_tells_the_model_what_is_missing_when_nothing_is_asked",
    ]


def test_agent_has_the_tool_when_it_is_named(root: Path) -> None:
    (root / "catalog/agents/guide.yaml").write_text("name: guide\ninstructions: Guide.\n")
    make(root, agent="guide")
    assert yaml.safe_load((root / "catalog/agents/guide.yaml").read_text())["tools"] == ["weather"]
    assert "weather" not in (root / "catalog/agents/assistant.yaml").read_text()


def test_no_agent_has_the_tool_when_none_shall(root: Path, snapshot: Snapshot) -> None:
    before = snapshot()
    make(root, agent="none")
    changed = {path.name for path, content in snapshot().items() if path in before and before[path] != content}
    assert changed == {"template.yaml"}


def test_tools_can_be_made_one_after_the_other(root: Path) -> None:
    for name in ("one", "two", "three"):
        make(root, name)
    resources = list(yaml_parse((root / "template.yaml").read_text())["Resources"])
    first = resources.index("ToolOneFunction")
    assert resources[first : first + 3] == ["ToolOneFunction", "ToolTwoFunction", "ToolThreeFunction"]


@pytest.mark.parametrize(
    ("agent", "changed"),
    [
        ("name: a\ntools: [x, y] # both\nmode: z\n", "name: a\ntools: [x, y, new] # both\nmode: z\n"),
        ("tools: []\n", "tools: [new]\n"),
        ("tools: [\n  x,\n]\n", "tools: [x, new]\n"),
        ("tools:\n  - x # why\n  # more\n  - y\nmode: z\n", "tools:\n  - x # why\n  # more\n  - y\n  - new\nmode: z\n"),
        ("tools:\n- x\n- y\n", "tools:\n- x\n- y\n- new\n"),
        ("name: a # why\n", "name: a # why\ntools: [new]\n"),
    ],
)  # fmt: skip
def test_agents_file_keeps_what_people_wrote_when_a_tool_is_added(agent: str, changed: str) -> None:
    assert with_tool(agent, "new") == changed


@pytest.mark.parametrize(
    "agent",
    [
        "tools:\n  - x\n  - tool: y\n    bound: {a: [1]}\nmode: z\n",
        "tools: [{tool: x, bound: {a: [1]}}]\n",
        "tools:\n",
        "tools: null\n",
        "instructions: |\n  tools: [a]\ntools: [b]\n",
    ],
)
def test_agent_has_its_tools_and_the_new_one_however_they_are_written(agent: str) -> None:
    row = yaml.safe_load(agent)
    assert yaml.safe_load(with_tool(agent, "new")) == {**row, "tools": [*(row["tools"] or []), "new"]}


BAD_NAMES = ["", "Weather", "air-quality", "1st", "_x", "x_", "a__b", "wetter ", "größe", "a/b", "../x", LONGEST + "w"]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_name_is_refused_with_the_rule_when_it_cannot_name_a_tool(root: Path, snapshot: Snapshot, name: str) -> None:
    before = snapshot()
    with pytest.raises(Refused, match="small letters, digits and single underscores, such as make new-tool NAME="):
        plan_tool(root, name, "assistant")
    assert snapshot() == before


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("calculator", "There is a tool calculator already, in catalog/tools/calculator.yaml"),
        ("renamed", "There is a tool renamed already, in catalog/tools/other.yaml"),
        ("catalog", "tests/unit/test_catalog.py is there already"),
        ("half", "functions/tool_half is there already"),
        ("read_re_sult", "has a function ToolReadReSultFunction already"),
    ],
)
def test_name_is_refused_with_the_place_when_something_has_it(root: Path, name: str, words: str) -> None:
    (root / "catalog/tools/other.yaml").write_text("name: renamed\nkind: interactive\n")
    (root / "functions/tool_half").mkdir()
    template = root / "template.yaml"
    template.write_text(template.read_text().replace("ToolReadResultFunction:", "ToolReadReSultFunction:"))
    with pytest.raises(Refused, match=f"{words}. Choose another name, such as make new-tool NAME=my_{name}"):
        plan_tool(root, name, "assistant")


def test_agents_are_named_when_there_is_no_such_agent(root: Path) -> None:
    with pytest.raises(Refused, match=r"There is no agent asistant; there are .*assistant.*AGENT=none"):
        plan_tool(root, "weather", "asistant")


def test_agent_is_named_when_it_has_another_tool_under_this_name(root: Path) -> None:
    agent = root / "catalog/agents/assistant.yaml"
    agent.write_text("name: assistant\ninstructions: Help.\ntools: [{tool: calculator, name: weather}]\n")
    with pytest.raises(Refused, match=r"catalog/agents/assistant\.yaml cannot have this tool: .*weather"):
        plan_tool(root, "weather", "assistant")


@pytest.mark.parametrize("old", ["  ToolCalculatorFunction:", "- !GetAtt Tool", "  AgentStateMachineRole:"])
def test_template_is_refused_when_it_has_no_place_for_a_tool(old: str) -> None:
    template = (ROOT / "template.yaml").read_text()
    start = template.index("  ToolCalculatorFunction:")
    cut = (
        template[:start]
        if old.startswith("  Tool")
        else template.replace(old, old.replace("Tool", "T").replace("Role", "R"))
    )
    with pytest.raises(NoPlace):
        with_function(cut, "weather")


@pytest.mark.parametrize("failing", range(6))
def test_nothing_is_left_behind_when_a_file_cannot_be_written(
    root: Path, snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    before, folders = snapshot(), {path for path in root.rglob("*") if path.is_dir()}
    plan = plan_tool(root, "weather", "assistant")
    write = Path.write_text
    written: list[Path] = []

    def write_until_full(path: Path, *arguments: str) -> int:
        if len(written) == failing:
            write(path, "half")
            raise OSError("no space left on device")
        written.append(path)
        return write(path, *arguments)

    monkeypatch.setattr(Path, "write_text", write_until_full)
    with pytest.raises(OSError, match="no space"):
        carry_out(root, plan)
    assert snapshot() == before
    assert {path for path in root.rglob("*") if path.is_dir()} == folders


def test_command_says_what_it_wrote_and_what_comes_next(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(monkeypatch, "weather", "")
    said = capsys.readouterr().out
    for words in ("new      functions/tool_weather/app.py", "changed  template.yaml", "make tool-rows", "make chat"):
        assert words in said


def test_command_says_to_offer_the_tool_when_no_agent_has_it(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(monkeypatch, "weather", "none")
    assert "add weather to tools in catalog/agents/*.yaml" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [(), ("calculator",), ("weather", "nobody")])
def test_command_ends_with_a_sentence_when_it_refuses(
    root: Path, monkeypatch: pytest.MonkeyPatch, snapshot: Snapshot, arguments: tuple[str, ...]
) -> None:
    before = snapshot()
    with pytest.raises(SystemExit, match=r"make new-tool NAME=|AGENT=none"):
        run(monkeypatch, *arguments)
    assert snapshot() == before
