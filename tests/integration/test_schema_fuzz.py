"""What schemathesis makes of the OpenAPI document, sent to a stack of its own: no request makes the server fail.

Half of the requests are what the document allows, half break it on purpose. Every other one of either speaks of things
that are there, so that what lies behind a route's checks is reached as well. Every reply is held against the document.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from math import ceil
from typing import Any, NamedTuple

import httpx
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from schemathesis import APIOperation, Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from stepagent.api.openapi import document
from tests.integration.runs import until
from tests.integration.test_runs_api import start, wait_for
from tests.local_loop import front_door, local_loop
from tests.scripted_model import Reply, ScriptedModel

EXAMPLES = 1500
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]

_TASK = {"type": "object", "properties": {"task": {"type": "string"}}, "required": ["task"]}
_ASKS = {"role": "user", "content": "Hi"}  # what every conversation must end with
_SAID = ("messages", "input")

Operation = APIOperation[Any, Any, Any, Any]
Sent = Case[Operation]
Known = Mapping[str, str]  # values of path parameters that are there


class Target(NamedTuple):
    base_url: str
    known: Known


@pytest.fixture
def target(restored_environment: None, model: ScriptedModel) -> Iterator[Target]:
    """A stack that nobody else uses, with a run that has ended and a question that waits."""
    model.script_for("ask me", Reply(calls=(("ask_user", {"question": "Which?"}),)))
    model.default = Reply(text="{}")  # an answer in whatever form a request wants it
    with local_loop(model.base_url) as loop, front_door(loop) as client:
        yield Target(str(client.base_url).rstrip("/"), begin_what_is_known(client))


def begin_what_is_known(client: httpx.Client) -> Known:
    tool = {"description": "Ask for help.", "kind": "agent", "target": "assistant", "parameters": _TASK}
    assert client.put("/tools/guide", json=tool).status_code == 201
    run_id = start(client, "Hi", session_id="known").json()["run_id"]
    wait_for(client, run_id, "completed")
    asking = wait_for(client, start(client, "ask me").json()["run_id"], "waiting")
    batch = {"batch_id": "known", "agent": "assistant", "inputs": ["Hi"]}
    assert client.post("/batches", json=batch).status_code == 202
    until(lambda: client.get("/batches/known").json()["status"] == "completed")
    names = {"session_id": "known", "batch_id": "known", "name": "guide", "interaction_id": asking["interactions"][0]}
    return {**names, "run_id": run_id, "response_id": f"resp_{run_id}"}


def test_no_request_of_the_document_makes_the_server_fail(target: Target) -> None:
    schema = schemathesis.openapi.from_dict(document())
    operations = [schema[path][method] for path, methods in document()["paths"].items() for method in methods]
    part = EXAMPLES / sum(map(weight, operations))
    with requests.Session() as session:
        send = sender(session, target)
        counted = {each.label: fuzz(each, ceil(part * weight(each)), send, target.known) for each in operations}
    for label, statuses in counted.items():
        print(f"{label:32} {dict(sorted(statuses.items()))}")
    assert sum(map(Counter.total, counted.values())) >= EXAMPLES
    assert [label for label, statuses in counted.items() if min(statuses) >= 300] == []  # each was reached, too


def weight(operation: Operation) -> int:
    """How much there is to vary: most in a body, nothing where there is neither that nor a parameter."""
    if operation.body:
        return 30
    return 10 if operation.path_parameters or operation.query else 1


def fuzz(operation: Operation, examples: int, send: Callable[[Sent], int], known: Known) -> Counter[int]:
    """Sends requests of one operation; how many were answered with each status."""
    statuses: Counter[int] = Counter()

    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        derandomize=True,
        phases=[Phase.generate],  # what fails is shown as it is: to shrink it would take minutes
        suppress_health_check=list(HealthCheck),
    )
    @given(cases(operation, known))
    def send_each(case: Sent) -> None:
        statuses[send(case)] += 1

    send_each()
    return statuses


@st.composite
def cases(draw: DrawFn, operation: Operation, known: Known) -> Sent:
    case: Sent = draw(_strategy(operation))
    declared = {parameter.name for parameter in operation.headers}  # others are between a client and its server
    for name in set(case.headers) - declared:
        del case.headers[name]
    if draw(st.booleans()):
        case.path_parameters = {name: known.get(name, value) for name, value in case.path_parameters.items()}
        if isinstance(case.body, dict):
            case.body = _aimed(case.body, operation)
    return case


def _aimed(body: dict[str, Any], operation: Operation) -> dict[str, Any]:
    """The body with names of what is there, and a conversation that ends with the person."""
    there = {"agent": "assistant", "target": "assistant", "model": _model(operation)}
    lists = {name: body[name] for name in _SAID if isinstance(body.get(name), list)}
    said = {name: [*messages, _ASKS] for name, messages in lists.items()}
    return {name: there.get(name, value) for name, value in body.items()} | said


def _model(operation: Operation) -> str:
    """What the field names that is there: to an agent's row a model, to everything else an agent."""
    return "default" if operation.path == "/agents/{name}" else "assistant"


def _strategy(operation: Operation) -> SearchStrategy[Sent]:
    allowed: SearchStrategy[Sent] = operation.as_strategy(generation_mode=GenerationMode.POSITIVE)
    return allowed | operation.as_strategy(generation_mode=GenerationMode.NEGATIVE)


def sender(session: requests.Session, target: Target) -> Callable[[Sent], int]:
    def send(case: Sent) -> int:
        response = case.call(base_url=target.base_url, session=session, timeout=60)
        case.validate_response(response, checks=CHECKS)
        return response.status_code

    return send
