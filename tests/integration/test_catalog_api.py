"""Agents and tools changed live through the HTTP API, and loaded from files by each deploy."""

import json
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
import yaml

from local.build import build
from local.deploy import DeployFailed, deploy
from local.emulator import Emulator, start, stop
from stepagent.api.catalog import delete_row, put_row
from stepagent.api.keys import Caller
from stepagent.api.preconditions import Precondition
from stepagent.errors import RecordConflict, RequestError
from stepagent.rows import Row, RowKey
from stepagent.runs import Principal
from stepagent.store.catalog import ROWS_AT_ONCE, read_row, read_rows, read_standing, write_rows
from tests.builders import NOON, a_tool
from tests.functions import load
from tests.integration.runs import begin, finish
from tests.local_loop import ROOT, LocalLoop, enter
from tests.scripted_model import Reply, ScriptedModel

CALCULATOR: dict[str, Any] = yaml.safe_load((ROOT / "catalog" / "tools" / "calculator.yaml").read_text())
TOOL: dict[str, Any] = {**CALCULATOR, "description": "Adds."}
del TOOL["name"]
AGENT: dict[str, Any] = {"instructions": "Be brief."}
ANN = Caller(Principal("ann"), frozenset({"catalog"}))
ANYHOW = Precondition()


@pytest.fixture
def other(loop: LocalLoop) -> Iterator[httpx.Client]:
    """A client whose key has no scope, at the gateway itself."""
    headers = {"Authorization": "Bearer other-key"}
    with httpx.Client(base_url=loop.stack.api_url, headers=headers, timeout=30, trust_env=False) as client:
        yield client


# ---- over HTTP


def test_rows_of_the_files_are_listed_when_the_stack_is_deployed(api: httpx.Client) -> None:
    tools = {row["name"]: row for row in api.get("/tools").json()["data"]}
    assert {"calculator", "current_time", "ask_user", "probe"} <= set(tools)
    assert (tools["calculator"]["version"], tools["calculator"]["origin"]) == (1, "file")
    assert "assistant" in {row["name"] for row in api.get("/agents").json()["data"]}


def test_row_is_shown_whole_with_its_version_as_etag(api: httpx.Client) -> None:
    reply = api.get("/tools/calculator")
    assert (reply.status_code, reply.headers["ETag"]) == (200, '"1"')
    assert reply.json()["row"] == CALCULATOR


def test_agent_lives_through_creation_change_and_deletion(api: httpx.Client) -> None:
    created = api.put("/agents/brief", json=AGENT, headers={"If-None-Match": "*"})
    changed = api.put("/agents/brief", json={**AGENT, "temperature": 0}, headers={"If-Match": created.headers["ETag"]})
    deleted = api.delete("/agents/brief", headers={"If-Match": changed.headers["ETag"]})
    assert [reply.status_code for reply in (created, changed, deleted)] == [201, 200, 204]
    assert [api.get("/agents/brief", params={"version": n}).status_code for n in (1, 2, 3, 4)] == [200, 200, 200, 404]
    assert api.get("/agents/brief", params={"version": 1}).json()["row"] == {"name": "brief", **AGENT}
    assert api.get("/agents/brief").status_code == 404


@pytest.mark.parametrize("name", ["add up", "查询", "tool(1)"])
def test_tool_is_found_by_its_name_when_that_is_no_word(api: httpx.Client, name: str) -> None:
    assert api.put(f"/tools/{name}", json=TOOL).json()["name"] == name
    assert read_row(RowKey("tool", name)) is not None


@pytest.mark.usefixtures("loop")
@pytest.mark.parametrize("name", ["größer?", "50%41", "a#b"])
def test_tool_is_found_by_its_name_when_the_path_comes_as_it_was_sent(name: str) -> None:
    event = json.loads((ROOT / "events" / "api" / "put_agent.json").read_text())
    put = {**event, "path": f"/tools/{quote(name, safe='')}", "headers": {}, "body": json.dumps(TOOL)}
    reply = load("api", "app").handler(put, None)  # API Gateway escapes a path, the emulator does not
    assert json.loads(reply["body"])["name"] == name


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "status", "code", "param"),
    [
        ("PUT", "/agents/x", {}, {}, 400, "invalid_request", "instructions"),
        ("PUT", "/agents/x", {**AGENT, "tools": ["nothing"]}, {}, 400, "invalid_request", "tools.0"),
        ("PUT", "/agents/x", {**AGENT, "model": "gpt-0"}, {}, 400, "invalid_request", "model"),
        ("PUT", "/agents/assistant", AGENT, {"If-Match": '"99"'}, 412, "precondition_failed", None),
        ("PUT", "/agents/assistant", AGENT, {"If-None-Match": "*"}, 412, "precondition_failed", None),
        ("DELETE", "/tools/calculator", None, {}, 409, "in_use", None),
        ("DELETE", "/tools/nothing", None, {}, 404, "not_found", None),
        ("GET", "/tools/nothing", None, {}, 404, "not_found", None),
        ("GET", "/tools/%F0%9F%98%80", None, {}, 404, "not_found", None),
        ("GET", f"/tools/{'x' * 2000}", None, {}, 404, "not_found", None),
        ("GET", "/tools/calculator?version=x", None, {}, 400, "invalid_request", "version"),
    ],
)
def test_request_is_refused_with_the_field_in_the_shape_of_openai(
    api: httpx.Client,
    method: str,
    path: str,
    body: dict[str, Any] | None,
    headers: dict[str, str],
    status: int,
    code: str,
    param: str | None,
) -> None:
    reply = api.request(method, path, json=body, headers=headers)
    error = reply.json()["error"]
    assert (reply.status_code, error["code"], error["param"]) == (status, code, param)


def test_agent_is_unknown_whatever_is_named_as_the_model(api: httpx.Client) -> None:
    for name in ("", " ", "x" * 2_000, "größer", "a\0b"):
        body = {"model": name, "messages": [{"role": "user", "content": "Hi"}]}
        assert api.post("/chat/completions", json=body).status_code == 404


def test_agents_are_named_when_their_tool_is_to_be_deleted(api: httpx.Client) -> None:
    assert "agent 'assistant'" in api.delete("/tools/calculator").json()["error"]["message"]


@pytest.mark.parametrize("kind", ["agents", "tools"])
def test_change_is_403_naming_the_scope_when_the_key_lacks_it(other: httpx.Client, kind: str) -> None:
    for reply in (other.put(f"/{kind}/x", json=AGENT), other.delete(f"/{kind}/x")):
        error = reply.json()["error"]
        assert (reply.status_code, error["code"]) == (403, "forbidden")
        assert "'catalog'" in error["message"]


def test_key_without_the_scope_reads_what_a_model_is_told(other: httpx.Client) -> None:
    assert set(other.get("/tools/calculator").json()) == {"object", "name", "description", "kind", "parameters"}
    assert set(other.get("/agents/assistant").json()) == {"object", "name", "description"}
    assert other.get("/agents").status_code == 200


# ---- in runs


def test_next_run_begins_with_what_was_changed_and_a_running_one_keeps_what_it_began_with(
    api: httpx.Client, loop: LocalLoop, model: ScriptedModel
) -> None:
    api.put("/agents/changing", json={"instructions": "First."})
    model.script_for("slow", Reply(text="done", first_delay_s=1))
    running = begin("slow", "changing").run
    api.put("/agents/changing", json={"instructions": "Second."})
    model.script_for("quick", Reply(text="done"))
    after = finish(loop, "quick", "changing")
    loop.wait_end(running.run_id)
    assert (running.agent.instructions, after.agent.instructions) == ("First.", "Second.")
    said = {request["messages"][-1]["content"]: request["messages"][0]["content"] for request in model.requests}
    assert said["slow"].startswith("First.")
    assert said["quick"].startswith("Second.")
    assert [run.versions["agent changing"] for run in (running, after)] == [1, 2]


def test_models_are_the_agents_of_the_table(api: httpx.Client) -> None:
    api.put("/agents/listed", json={**AGENT, "description": "Made live."})
    listed = {row["id"]: row for row in api.get("/models").json()["data"]}
    assert listed["listed"]["description"] == "Made live."
    api.delete("/agents/listed")
    assert "listed" not in {row["id"] for row in api.get("/models").json()["data"]}


# ---- several at once


@pytest.mark.usefixtures("loop")
def test_change_is_refused_when_somebody_else_changed_the_catalog_first() -> None:
    changes = read_standing().changes
    write_rows([Row(RowKey("tool", "quick"), 1, a_tool("quick"), "live", "ann", NOON)], changes)
    with pytest.raises(RecordConflict):
        write_rows([Row(RowKey("tool", "late"), 1, a_tool("late"), "live", "bob", NOON)], changes)
    assert read_row(RowKey("tool", "late")) is None


@pytest.mark.usefixtures("loop")
def test_agent_and_the_tool_that_it_takes_agree_when_both_are_changed_at_once() -> None:
    tool, agent = RowKey("tool", "contested"), RowKey("agent", "contender")
    wanting = b'{"instructions": "Take it.", "tools": ["contested"]}'
    for _ in range(8):
        put_row(agent, b'{"instructions": "Leave it."}', ANYHOW, ANN)
        put_row(tool, a_tool("contested").model_dump_json(exclude_unset=True).encode(), ANYHOW, ANN)
        with ThreadPoolExecutor(2) as pool:
            taken = pool.submit(_succeeds, lambda: put_row(agent, wanting, ANYHOW, ANN))
            deleted = pool.submit(_succeeds, lambda: delete_row(tool, ANYHOW, ANN))
        assert taken.result() != deleted.result()


def _succeeds(change: Callable[[], object]) -> bool:
    try:
        change()
    except RequestError:
        return False
    return True


@pytest.mark.usefixtures("loop")
def test_everybody_comes_to_his_change_when_many_make_one_at_once() -> None:
    def put(number: int) -> int:
        content = json.dumps({**TOOL, "description": f"Number {number}."}).encode()
        return put_row(RowKey("tool", f"many_{number % 4}"), content, ANYHOW, ANN).row.version

    with ThreadPoolExecutor(8) as pool:
        versions = list(pool.map(put, range(16)))
    assert sorted(versions) == sorted([1, 2, 3, 4] * 4)


@pytest.mark.usefixtures("loop")
def test_largest_rows_are_written_all_at_once() -> None:
    tools = [a_tool(f"large_{number}", description="x" * 99_700) for number in range(ROWS_AT_ONCE)]
    keys = [RowKey("tool", tool.name) for tool in tools]
    rows = [Row(key, 1, tool, "live", "ann", NOON) for key, tool in zip(keys, tools, strict=True)]
    write_rows(rows, read_standing().changes)
    assert sorted(read_rows(keys)) == sorted(rows)
    changes = read_standing().changes
    write_rows([row._replace(version=2, spec=None) for row in rows], changes)


# ---- by deploys


@pytest.fixture
def product(tmp_path: Path) -> Path:
    """A product whose catalog a test may change."""
    for name in ("layers", "statemachine", "functions", "template.yaml"):
        (tmp_path / name).symlink_to(ROOT / name)
    shutil.copytree(ROOT / "catalog", tmp_path / "catalog")
    return tmp_path


@pytest.fixture
def emulator(tmp_path: Path, restored_environment: None) -> Iterator[Emulator]:
    running = start(tmp_path / "aws")
    yield running
    stop(running)


def test_deploy_brings_changed_files_keeps_live_changes_and_names_a_wrong_row(
    emulator: Emulator, product: Path
) -> None:
    def deployed() -> None:
        enter(emulator, deploy(emulator, build(product, environment={}, parameters={})), product)

    def file(name: str, **fields: Any) -> None:
        path = product / "catalog" / name
        path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **fields}))

    def versions(*names: str) -> list[tuple[int, str]]:
        rows = [read_row(RowKey("tool", name)) for name in names]
        return [(row.version, row.origin) for row in rows if row]

    deployed()
    assert versions("calculator", "current_time") == [(1, "file"), (1, "file")]

    put_row(RowKey("tool", "current_time"), b'{"description": "x", "kind": "lambda", "target": "y"}', ANYHOW, ANN)
    file("tools/calculator.yaml", description="Adds.")
    deployed()
    assert versions("calculator", "current_time") == [(2, "file"), (2, "live")]

    file("tools/current_time.yaml", timeout_s=9)
    file("agents/assistant.yaml", temprature=0)
    with pytest.raises(DeployFailed, match=r"agents/assistant\.yaml is not right: temprature"):
        deployed()
    assert versions("calculator", "current_time") == [(2, "file"), (2, "live")]

    (product / "catalog" / "agents" / "assistant.yaml").write_text(yaml.safe_dump({"name": "a", "instructions": "b"}))
    (product / "catalog" / "agents" / "planner.yaml").unlink()
    (product / "catalog" / "triggers.yaml").write_text("rules: []")
    (product / "catalog" / "tools" / "ask_user.yaml").unlink()
    deployed()
    assert versions("current_time", "ask_user") == [(3, "file"), (2, "file")]
    assert read_row(RowKey("tool", "ask_user"), 1) is not None
    agents = read_standing().catalog.agents
    assert ("a" in agents, "assistant" in agents) == (True, False)
