"""The OpenAPI document, made from the table of routes and the models that requests are read with.

As a program it writes `docs/openapi.json`: `make openapi`.
"""

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from stepagent.api.openapi_replies import Error
from stepagent.api.openapi_routes import OPERATIONS, Answered, Operation
from stepagent.errors import RequestError

Json = dict[str, Any]
_Schemas = Mapping[tuple[Any, JsonSchemaMode], Json]  # by model

_REFS = "#/components/schemas/{model}"
_SSE: Json = {"text/event-stream": {}}  # OpenAPI 3.1 has no words for events
_EVERYWHERE = {401: "The key is missing or not valid.", 429: "Too many requests at once.", 500: "The server's fault."}
_HEADERS = {
    "Idempotency-Key": "The same request with the same key joins what the first one began.",
    "Last-Event-ID": "The number of the last event that is known.",
    "If-Match": "Versions, one of which must stand.",
    "If-None-Match": "`*`: the row must be new.",
}
_PATTERNS = {"Idempotency-Key": "^[ -~]{1,255}$", "Last-Event-ID": "^[0-9]{0,12}$", "If-None-Match": r"^\*?$"}


@cache
def document() -> Json:
    """The whole document, OpenAPI 3.1."""
    schemas, definitions = models_json_schema(sorted(_models(), key=str), ref_template=_REFS)
    paths: dict[str, Json] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, schemas)
    security = {"key": {"type": "http", "scheme": "bearer"}}
    info = {"title": "StepAgent", "version": "1", "description": "Agents behind OpenAI's interfaces, and as runs."}
    return {
        "openapi": "3.1.0",
        "info": info,
        "servers": [{"url": "/v1"}],
        "security": [{"key": []}],
        "paths": paths,
        "components": {"schemas": _as_taken(definitions["$defs"]), "securitySchemes": security},
    }


def as_text() -> str:
    """The document as its file has it."""
    return json.dumps(document(), indent=1) + "\n"


def _models() -> Iterator[tuple[type[BaseModel], JsonSchemaMode]]:
    yield Error, "serialization"
    for operation in OPERATIONS:
        yield from ((model, "validation") for model in (operation.body, operation.query) if model)
        for answer in operation.answers:
            if isinstance(answer.model, type):
                yield answer.model, "serialization"


def _operation(operation: Operation, schemas: _Schemas) -> Json:
    refusals = {status: _refused(why, schemas) for status, why in _refusals(operation.raises).items()}
    answers = {answer.status: _answered(answer, schemas) for answer in operation.answers}
    shown: Json = {
        "operationId": operation.name,
        "summary": operation.summary,
        "parameters": list(_parameters(operation, schemas)),
        "responses": {str(status): reply for status, reply in sorted({**refusals, **answers}.items())},
    }
    if operation.body:
        content = {"application/json": {"schema": schemas[operation.body, "validation"]}}
        shown["requestBody"] = {"required": True, "content": content}
    return shown


def _parameters(operation: Operation, schemas: _Schemas) -> Iterator[Json]:
    for name in re.findall(r"{(\w+)}", operation.path):
        yield {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
    if operation.query:
        for name, schema in operation.query.model_json_schema(ref_template=_REFS)["properties"].items():
            yield {"name": name, "in": "query", "schema": _not_null(schema)}
    for name in operation.headers:
        schema = {"type": "string", "pattern": _PATTERNS.get(name, "^[ -~]*$")}
        yield {"name": name, "in": "header", "description": _HEADERS[name], "schema": schema}


def _not_null(schema: Json) -> Json:
    """The schema of a parameter: one that is not given is left out, never null."""
    kinds = [kind for kind in schema.get("anyOf", ()) if kind != {"type": "null"}]
    rest = {name: value for name, value in schema.items() if name not in ("anyOf", "default") or value is not None}
    return {**{name: value for name, value in rest.items() if name != "anyOf"}, **kinds[0]} if kinds else schema


def _answered(answer: Answered, schemas: _Schemas) -> Json:
    schema = schemas[answer.model, "serialization"] if isinstance(answer.model, type) else answer.model
    content = ({"application/json": {"schema": schema}} if schema else {}) | (_SSE if answer.streams else {})
    return {"description": answer.description, **({"content": content} if content else {})}


def _refused(why: str, schemas: _Schemas) -> Json:
    return {"description": why, "content": {"application/json": {"schema": schemas[Error, "serialization"]}}}


def _refusals(raises: Sequence[type[RequestError]]) -> dict[int, str]:
    """Why each status is answered, in the words of the errors that have it."""
    whys: dict[int, list[str]] = {status: [why] for status, why in _EVERYWHERE.items()}
    for error in raises:
        [first, *_] = (error.__doc__ or HTTPStatus(error.http_status).phrase).splitlines()
        whys.setdefault(error.http_status, []).append(first)
    return {status: " ".join(each) for status, each in whys.items()}


def _as_taken(definitions: Json) -> Json:
    """The models, where what they take is more than pydantic can tell: short forms, and names left to the path."""
    chat, agent = definitions["ChatRequest"]["properties"], definitions["AgentSpec"]["properties"]
    chat["stop"] = {**chat["stop"], "type": ["array", "string"], "minLength": 1}
    agent["tools"]["items"] = {"anyOf": [{"type": "string"}, agent["tools"]["items"]]}
    for name in ("AgentSpec", "ToolSpec"):
        definitions[name]["required"].remove("name")
    queries = {operation.query.__name__ for operation in OPERATIONS if operation.query}
    return {name: schema for name, schema in definitions.items() if name not in queries}


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(as_text())
