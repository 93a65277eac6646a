"""`make sam-local` without a container: which events, what an answer comes to, and what it starts is stopped."""

import asyncio
import base64
import json
import os
from pathlib import Path
from typing import Any

import httpx
import pytest
from samtranslator.yaml_helper import yaml_parse
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from local import sam_local as subject
from local.sam import engine as engines
from local.sam import fixed_model, web_adapter
from local.sam.build import ADAPTER_LAYER, local_template
from local.sam.engine import Engine, NoEngine
from local.sam.image import parse_ldd
from local.sam.relay import Relay
from local.sam.samples import Sample, find_samples, logical_ids, outcome_of
from local.sam.served import served
from local.sam.stack import ask_web_app
from local.sam.web_adapter import CONTEXT_HEADER, request_of, response_of
from tests.functions import ROOT

Json = dict[str, Any]


# ---- samples


def test_every_function_of_the_template_has_a_sample() -> None:
    assert {sample.function for sample in find_samples(ROOT)} == set(logical_ids(ROOT))


@pytest.mark.parametrize("sample", find_samples(ROOT), ids=lambda sample: sample.name)
def test_sample_is_an_object_or_a_list(sample: Sample) -> None:
    assert isinstance(json.loads(sample.path.read_text()), dict | list)


@pytest.mark.parametrize("wish", [["think"], ["think/first_turn"]])
def test_samples_are_those_that_a_wish_names(wish: list[str]) -> None:
    assert "think/first_turn" in [sample.name for sample in find_samples(ROOT, wish)]
    assert {sample.function for sample in find_samples(ROOT, wish)} == {"think"}


def test_no_sample_is_found_when_a_wish_names_none() -> None:
    assert find_samples(ROOT, ["thin"]) == []


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ({"errorType": "NotFound", "errorMessage": "…"}, "raises NotFound"),
        ({"statusCode": 204, "body": ""}, "HTTP 204"),
        ({"statusCode": 200, "body": '{"b": 1, "a": 2}'}, "HTTP 200 a b"),
        ({"statusCode": 404, "body": '{"error": {"code": "not_found"}}'}, "HTTP 404 (not_found)"),
        ({"statusCode": 200, "body": "data: [DONE]\n\n"}, "HTTP 200"),
        ({"at": "2030-01-01T12:00:00.5+00:00"}, '{"at": "<time>"}'),
        (None, "null"),
    ],
)
def test_outcome_is_what_an_answer_comes_to(answer: object, outcome: str) -> None:
    assert outcome_of(answer) == outcome


# ---- the template that SAM builds


def template() -> Json:
    parsed: Json = yaml_parse((ROOT / "template.yaml").read_text())
    return local_template(parsed, ROOT, Path("/adapter"), "x86_64")


def test_everything_is_built_for_this_machines_processor() -> None:
    assert "arm64" not in json.dumps({name: template()[name] for name in ("Globals", "Resources")}, default=str)


def test_functions_are_told_where_aws_is() -> None:
    assert "AWS_ENDPOINT_URL" in template()["Globals"]["Function"]["Environment"]["Variables"]


def test_web_server_has_the_stand_in_and_no_layer_that_must_be_downloaded() -> None:
    layers = template()["Resources"]["StreamFunction"]["Properties"]["Layers"]
    assert layers == [{"Ref": "CatalogLayer"}, {"Ref": ADAPTER_LAYER}]


def test_layers_are_found_wherever_the_template_is_written() -> None:
    resources = template()["Resources"].values()
    layers = [found["Properties"] for found in resources if found["Type"] == "AWS::Serverless::LayerVersion"]
    assert all(Path(layer["ContentUri"]).is_absolute() for layer in layers)


# ---- between Lambda and a web server


def an_event(**changes: Any) -> Json:
    context = {"stage": "v1", "path": "/v1/runs/a", "authorizer": {"principalId": "Zoë"}}
    event = {"path": "/runs/a", "httpMethod": "GET", "requestContext": context, "headers": {"Accept": "*/*"}}
    return {**event, "body": None, "isBase64Encoded": False, **changes}


def test_request_has_the_path_without_the_stage() -> None:
    assert request_of(an_event()).target == "/runs/a"


def test_request_has_every_value_of_its_query() -> None:
    query = {"queryStringParameters": {"a": "2"}, "multiValueQueryStringParameters": {"a": ["1", "2"]}}
    assert request_of(an_event(**query)).target == "/runs/a?a=1&a=2"


def test_request_has_its_body_when_it_came_as_base64() -> None:
    event = an_event(body=base64.b64encode(b"\xff").decode(), isBase64Encoded=True)
    assert request_of(event).body == b"\xff"


def test_request_says_who_calls_in_any_script() -> None:
    context = request_of(an_event()).headers[CONTEXT_HEADER].encode("latin-1")
    assert json.loads(context)["authorizer"] == {"principalId": "Zoë"}


def test_response_is_text_when_it_is_a_stream_of_events() -> None:
    answer = response_of(200, {"content-type": "text/event-stream; charset=utf-8"}, "data: ü\n\n".encode())
    assert (answer["body"], answer["isBase64Encoded"]) == ("data: ü\n\n", False)


def test_response_is_base64_when_it_is_no_text() -> None:
    answer = response_of(200, {"content-type": "image/png"}, b"\xff")
    assert (answer["body"], answer["isBase64Encoded"]) == ("/w==", True)


async def _echo(request: Request) -> JSONResponse:
    told = {"query": request.url.query, "context": CONTEXT_HEADER in request.headers}
    return JSONResponse({**told, "body": (await request.body()).decode()}, 201)


ECHO = Starlette(routes=[Route("/runs/a", _echo, methods=["POST"])])


def test_stand_in_asks_a_server_as_the_event_says() -> None:
    event = an_event(httpMethod="POST", body="hello", queryStringParameters={"q": "x"})
    with served(ECHO) as url:
        answer = web_adapter.ask(int(url.rpartition(":")[2]), request_of(event))
    assert answer["statusCode"] == 201
    assert json.loads(answer["body"]) == {"query": "q=x", "context": True, "body": "hello"}


def test_web_app_of_a_function_answers_an_event(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("from tests.unit.test_sam_local import ECHO as served\n")
    answer = ask_web_app(tmp_path, an_event(httpMethod="POST", body="hello"))
    assert json.loads(answer["body"])["body"] == "hello"


def test_fixed_model_says_its_answer_and_ends() -> None:
    with served(fixed_model.app) as url:
        text = httpx.post(f"{url}/chat/completions", json={}, trust_env=False).text
    assert fixed_model.ANSWER in text
    assert text.endswith("data: [DONE]\n\n")


# ---- between containers and the emulator


def relayed(method: str, target: str, answer: httpx.Response, **headers: str) -> tuple[httpx.Request, httpx.Response]:
    """What reaches the emulator, and what the container reads."""
    seen: list[httpx.Request] = []

    def emulator(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return answer

    async def ask() -> httpx.Response:
        relay = Relay("http://127.0.0.1:4566", httpx.MockTransport(emulator))
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=relay)) as container:
            return await container.request(method, f"http://172.30.0.1:9000{target}", headers=headers)

    read = asyncio.run(ask())
    return seen[0], read


def test_request_of_a_container_arrives_under_the_emulators_name() -> None:
    request, _ = relayed("GET", "/", httpx.Response(200))
    assert request.headers["host"] == "127.0.0.1:4566"


def test_request_of_a_container_arrives_as_it_was_written() -> None:
    request, _ = relayed("GET", "/bucket/a%2Fb?list-type=2&prefix=a%2F", httpx.Response(200), authorization="AWS4 x")
    assert request.url.raw_path == b"/bucket/a%2Fb?list-type=2&prefix=a%2F"
    assert request.headers["authorization"] == "AWS4 x"


def test_answer_of_the_emulator_arrives_whole() -> None:
    _, answer = relayed("GET", "/", httpx.Response(404, headers={"etag": '"x"'}, content=b"<Error/>"))
    assert (answer.status_code, answer.headers["etag"], answer.content) == (404, '"x"', b"<Error/>")


def test_length_is_that_of_the_object_when_only_its_head_is_asked() -> None:
    _, answer = relayed("HEAD", "/bucket/key", httpx.Response(200, headers={"content-length": "9"}))
    assert answer.headers["content-length"] == "9"


# ---- engines


def a_program(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of programs, which stands first. `docker` reaches an engine only where DOCKER_HOST names one."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    a_program(folder, "docker", '[ "$DOCKER_HOST" ]')
    a_program(folder, "busybox", "true")
    return folder


def test_engine_is_stopped_by_its_id_when_the_work_fails(programs: Path, tmp_path: Path) -> None:
    a_program(programs, "dockerd", f"echo $$ > {tmp_path}/pid; exec sleep 600")
    answers = f'[ -s {tmp_path}/pid -a "$DOCKER_HOST" ]'
    a_program(programs, "docker", f'{answers} && [ "$1" != import ] || {{ echo no space left >&2; exit 1; }}')
    with pytest.raises(NoEngine, match="no space left"), engines.running_engine() as engine:
        engine.run("import", "x")
    pid = int((tmp_path / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_reason_is_that_of_the_engine_when_it_does_not_start(programs: Path) -> None:
    a_program(programs, "docker", "exit 1")
    a_program(programs, "dockerd", "echo no cgroups here; exit 1")
    with pytest.raises(NoEngine, match="dockerd does not start: no cgroups here"), engines.running_engine():
        pass


def test_no_engine_is_started_when_the_user_is_not_root(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(NoEngine, match="only root can start one"), engines.running_engine():
        pass


def test_users_own_engine_is_taken_and_left_alone(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///theirs")
    a_program(programs, "dockerd", "exit 1")
    with engines.running_engine() as engine:
        assert engine.environment == {}


def test_published_image_is_not_pulled_when_no_registry_answers_and_it_is_there(programs: Path) -> None:
    a_program(programs, "docker", '[ "$1" != pull ]')
    with engines.running_engine() as engine:
        assert not engine.pulls


def test_failure_of_docker_is_told_in_its_own_words(programs: Path) -> None:
    a_program(programs, "docker", "echo no space left >&2; exit 1")
    with pytest.raises(NoEngine, match="docker import: no space left"):
        Engine(str(programs / "docker"), {}).run("import", "x")


def test_libraries_are_those_that_the_loader_names() -> None:
    listed = """
        linux-vdso.so.1 (0x00007f)
        libz.so.1 => /lib/libz.so.1 (0x00007f)
        libgone.so.1 => not found
        /lib64/ld-linux-x86-64.so.2 (0x00007f)
    """
    assert list(parse_ldd(listed)) == [Path("/lib/libz.so.1"), Path("/lib64/ld-linux-x86-64.so.2")]


# ---- the command


def test_command_tells_why_it_skips_and_ends_well_when_there_is_no_engine(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def none() -> None:
        raise NoEngine("no container engine is installed")

    monkeypatch.setattr(subject, "running_engine", none)
    monkeypatch.setattr("sys.argv", ["sam_local"])
    subject.main()
    assert capsys.readouterr().out == "Skipped: no container engine is installed.\n"


def test_command_refuses_a_name_that_no_sample_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["sam_local", "thin"])
    with pytest.raises(SystemExit, match="No sample event has such a name: thin"):
        subject.main()


def test_line_of_a_sample_tells_what_was_expected_when_it_is_another() -> None:
    sample = Sample("think", "first_turn", Path("x"))
    assert subject.Verdict(sample, "HTTP 500", "HTTP 200", 7.25).line == (
        "FAILED   7.2 s  think/first_turn  HTTP 500, expected HTTP 200"
    )
