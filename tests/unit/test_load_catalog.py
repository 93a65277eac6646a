"""The custom resource behind the catalog: what CloudFormation is told, and that it is told something at all."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from samtranslator.yaml_helper import yaml_parse

from stepagent import loading
from stepagent.errors import ConfigurationError, RecordConflict
from stepagent.rows import Row
from stepagent.store.catalog import Standing
from tests.functions import ROOT, load

CLOUDFORMATION: ModuleType = load("load_catalog", "cloudformation")


class Answers(HTTPServer):
    """Takes answers as CloudFormation's bucket does."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Bucket)
        self.taken: list[dict[str, Any]] = []
        self.status = 200

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/answer?signature=1"


class _Bucket(BaseHTTPRequestHandler):
    server: Answers

    def do_PUT(self) -> None:
        self.server.taken.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        # The signature covers no content type.
        self.send_response(403 if self.headers["Content-Type"] else self.server.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def answers() -> Iterator[Answers]:
    with Answers() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def serve(answers: Answers, work: Callable[[], None], kind: str = "Update") -> dict[str, Any]:
    event = {
        "RequestType": kind,
        "ResponseURL": answers.url,
        "StackId": "arn:stack",
        "RequestId": "r1",
        "LogicalResourceId": "CatalogRows",
        "ResourceType": "Custom::Catalog",
        "ResourceProperties": {"ServiceToken": "arn:function"},
    }
    CLOUDFORMATION.serve(CLOUDFORMATION.StackRequest.model_validate(event), work)
    [answer] = answers.taken
    return answer


def fails_with(error: Exception) -> Callable[[], None]:
    def work() -> None:
        raise error

    return work


@pytest.mark.parametrize("kind", ["Create", "Update"])
def test_deploy_goes_on_when_the_catalog_is_loaded(answers: Answers, kind: str) -> None:
    done: list[str] = []
    assert serve(answers, lambda: done.append(kind), kind) == {
        "Status": "SUCCESS",
        "Reason": "",
        "PhysicalResourceId": "catalog",
        "StackId": "arn:stack",
        "RequestId": "r1",
        "LogicalResourceId": "CatalogRows",
    }
    assert done == [kind]


def test_deploy_fails_with_the_sentence_when_a_row_is_wrong(answers: Answers) -> None:
    answer = serve(answers, fails_with(ConfigurationError("agents/x.yaml is not right: model: …")))
    assert (answer["Status"], answer["Reason"]) == ("FAILED", "agents/x.yaml is not right: model: …")


def test_deploy_fails_at_once_when_something_else_is_wrong(answers: Answers) -> None:
    answer = serve(answers, fails_with(KeyError("secret")))
    assert answer["Status"] == "FAILED"
    assert "KeyError" in answer["Reason"]
    assert "secret" not in answer["Reason"]


def test_answer_stays_below_4_kb_when_the_reason_is_long(answers: Answers) -> None:
    answer = serve(answers, fails_with(ConfigurationError("x" * 10_000)))
    assert len(json.dumps(answer)) < 4_096


def test_rows_stay_when_the_stack_is_deleted(answers: Answers) -> None:
    assert serve(answers, fails_with(ConfigurationError("not called")), "Delete")["Status"] == "SUCCESS"


def test_lambda_tries_again_when_the_answer_was_not_taken(answers: Answers) -> None:
    answers.status = 503
    with pytest.raises(OSError, match="503"):
        serve(answers, lambda: None)


def test_reason_is_returned_when_it_is_called_by_hand() -> None:
    request = CLOUDFORMATION.StackRequest.model_validate({})
    assert CLOUDFORMATION.serve(request, fails_with(ConfigurationError("wrong")))["Reason"] == "wrong"


def test_function_loads_the_files_of_its_layer(
    monkeypatch: pytest.MonkeyPatch, set_environment: Callable[..., None]
) -> None:
    asked: list[Path] = []
    app = load("load_catalog", "app")
    monkeypatch.setattr(app, "load", asked.append)
    set_environment(CATALOG_DIR="/opt")
    assert app.handler({}, None)["Status"] == "SUCCESS"
    assert asked == [Path("/opt")]


class Busy:
    """A record that somebody else changes so many times first."""

    def __init__(self, times: int) -> None:
        self.times = times
        self.written: list[Row] = []

    def write_rows(self, rows: list[Row], changes: int) -> None:
        if self.times:
            self.times -= 1
            raise RecordConflict("somebody else was quicker")
        self.written = rows


def busy(monkeypatch: pytest.MonkeyPatch, times: int) -> Busy:
    record = Busy(times)
    monkeypatch.setattr(loading, "read_standing", lambda: Standing(0, {}))
    monkeypatch.setattr(loading, "write_rows", record.write_rows)
    return record


def test_catalog_is_loaded_on_what_stands_when_somebody_else_was_quicker(monkeypatch: pytest.MonkeyPatch) -> None:
    record = busy(monkeypatch, times=2)
    loading.load(ROOT / "catalog")
    assert {row.key.kind for row in record.written} == {"agent", "tool"}


def test_loading_is_given_up_when_others_are_always_quicker(monkeypatch: pytest.MonkeyPatch) -> None:
    busy(monkeypatch, times=1_000)
    with pytest.raises(RecordConflict):
        loading.load(ROOT / "catalog")


# ---- the template's part


RESOURCES: dict[str, Any] = yaml_parse((ROOT / "template.yaml").read_text())["Resources"]


def test_catalog_is_loaded_again_when_a_layer_has_another_version() -> None:
    properties = RESOURCES["CatalogRows"]["Properties"]
    assert properties["ServiceToken"] == {"Fn::GetAtt": ["LoadCatalogFunction", "Arn"]}
    assert [properties["Catalog"], properties["Library"]] == [{"Ref": "CatalogLayer"}, {"Ref": "RuntimeLayer"}]


def test_deploy_waits_for_the_answer_longer_than_the_function_may_run_three_times() -> None:
    timeout_s = RESOURCES["LoadCatalogFunction"]["Properties"]["Timeout"]
    retries_s = 60 + 120  # after which Lambda tries again what it was given asynchronously
    assert RESOURCES["CatalogRows"]["Properties"]["ServiceTimeout"] >= 3 * timeout_s + retries_s


def test_loader_reaches_the_catalogs_items_only() -> None:
    [policy] = RESOURCES["LoadCatalogFunction"]["Properties"]["Policies"]
    [statement] = policy["Statement"]
    [keys] = statement["Condition"].values()
    assert set(keys["dynamodb:LeadingKeys"]) == {"CATALOG", "AGENTS", "TOOLS", "AGENT#*", "TOOL#*"}


def allowed(function: str) -> set[str]:
    policies = RESOURCES[function]["Properties"].get("Policies", [])
    statements = [statement for policy in policies for statement in policy["Statement"]]
    listed = [statement["Action"] for statement in statements]
    return {action for actions in listed for action in ([actions] if isinstance(actions, str) else actions)}


def test_function_may_read_an_agents_tools_when_it_starts_runs() -> None:
    functions = [name for name, item in RESOURCES.items() if item["Type"] == "AWS::Serverless::Function"]
    # These start nothing but another execution of a run that keeps its agent and tools, or of a batch.
    others = {"FinalizeFunction", "ThinkFunction", "FinishBatchFunction"}
    starting = [name for name in functions if "states:StartExecution" in allowed(name) and name not in others]
    assert starting
    assert [name for name in starting if "dynamodb:BatchGetItem" not in allowed(name)] == []
