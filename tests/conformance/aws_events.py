"""Events that AWS hands to the product's functions."""

import asyncio
import base64
import importlib.util
import sys
from typing import Any

from starlette.applications import Starlette

from stepagent.messages import UserMessage
from stepagent.store.runs import create_run, load_run
from tests.conformance import queue_driver, wire
from tests.conformance.api_driver import to_application
from tests.conformance.aws_store import a_run
from tests.conformance.cases import Case, Json, event_of
from tests.conformance.evidence import Answer, Evidence
from tests.conformance.loop_driver import OWNER
from tests.conformance.stage import API_MODEL, Stage
from tests.conformance.wire import Script
from tests.functions import ROOT, load


def hand_over(stage: Stage, case: Case, name: str) -> Evidence:
    """Gives an event to the function that it is for."""
    event = event_of(case.input) or {}
    if "Records" in event:
        return queue_driver.take_batches(stage, case, name)
    if event.get("source") == "aws.states":
        return _ended_execution(event, name)
    with stage.api_turn:
        return _gateway_event(stage, case, event)


def _ended_execution(event: Json, name: str) -> Evidence:
    """The service says that the execution of a run ended; nobody else closes the run."""
    run = a_run(name)
    create_run(run, [UserMessage(text="begin")])
    handler = load("finalize", "app").handler
    for _ in range(2):  # events come more than once
        handler({**event, "detail": {**event.get("detail", {}), "name": run.run_id}}, object())
    return Evidence(run=load_run(run.key))


def _gateway_event(stage: Stage, case: Case, base: Json) -> Evidence:
    """An event of the gateway and its variants, each given to the function that has the route."""
    evidence = Evidence()
    events = [("base", base)] + [_variant(base, n, each) for n, each in enumerate(case.input.get("variants", []), 1)]
    for label, event in events:
        stage.models.scripts[API_MODEL] = script = Script([wire.said("hi")] * 5)
        try:
            answer = _handle(event)
        except Exception as error:  # whether it may is what the case asserts
            evidence.facts["raised"] = f"{type(error).__name__}: {error}"
            answer = Answer(500, {}, str(error))
        answer.label = label
        evidence.answers.append(answer)
        evidence.requests += script.requests
    return evidence


def _variant(base: Json, number: int, variant: Any) -> tuple[str, Json]:
    if not isinstance(variant, dict):
        return str(variant), base
    fields = {name: value for name, value in variant.items() if name != "name"}
    return str(variant.get("name", number)), {**base, **fields.get("event", fields)}


def _handle(event: Json) -> Answer:
    request = _request(event)
    if request["path"].endswith("/chat/completions"):
        return asyncio.run(to_application(_stream_application(), {**request, "path": "/chat/completions"}, OWNER))
    filled = {"httpMethod": request["method"], "path": request["path"], **event}
    filled["requestContext"] = {"authorizer": {"principalId": OWNER}, **(event.get("requestContext") or {})}
    reply = load("api", "app").handler(filled, object())
    return Answer(reply["statusCode"], {}, reply.get("body") or "")


def _request(event: Json) -> Json:
    http = (event.get("requestContext") or {}).get("http", {})
    method = event.get("httpMethod") or http.get("method", "POST")
    path = event.get("path") or event.get("rawPath") or "/chat/completions"
    body = event.get("body") or ""
    content = base64.b64decode(body) if event.get("isBase64Encoded") else str(body).encode()
    headers = {str(name): str(value) for name, value in (event.get("headers") or {}).items()}
    return {"method": method, "path": path, "content": content, "headers": headers}


def _stream_application() -> Starlette:
    folder = ROOT / "functions" / "stream"
    spec = importlib.util.spec_from_file_location("stream_app_of_cases", folder / "app.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(folder))
    spec.loader.exec_module(module)
    application: Starlette = module.app
    return application
