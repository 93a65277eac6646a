"""The OpenAPI document: it is a valid one, current, and names every route."""

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from stepagent.api.openapi import as_text, document
from tests.functions import ROOT
from tests.unit.test_routes import deployed

PATHS: dict[str, dict[str, Any]] = document()["paths"]
OPERATIONS = [operation for methods in PATHS.values() for operation in methods.values()]


def test_document_is_current() -> None:
    assert (ROOT / "docs" / "openapi.json").read_text() == as_text(), "run make openapi"


def test_document_names_every_route_of_the_template() -> None:
    named = {(method.upper(), path) for path, methods in PATHS.items() for method in methods}
    assert named == deployed("ApiFunction") | deployed("StreamFunction")


def test_guide_shows_every_route() -> None:
    guide = (ROOT / "docs" / "api.md").read_text()
    missing = [path for path in PATHS if path.partition("{")[0] not in guide]
    assert not missing


def test_operations_have_names_of_their_own() -> None:
    assert len({operation["operationId"] for operation in OPERATIONS}) == len(OPERATIONS)


@pytest.mark.parametrize("name", document()["components"]["schemas"])
def test_schema_is_valid(name: str) -> None:
    Draft202012Validator.check_schema(document()["components"]["schemas"][name])


def test_references_lead_to_schemas() -> None:
    known = {f"#/components/schemas/{name}" for name in document()["components"]["schemas"]}
    assert set(references(document())) == known


@pytest.mark.parametrize(
    ("schema", "body"),
    [
        ("ChatRequest", {"model": "a", "messages": [{"role": "user", "content": "Hi"}], "stop": "."}),
        ("RunRequest", {"agent": "a", "input": "Hi"}),
        ("ResponseRequest", {"model": "a", "input": [{"role": "user", "content": "Hi"}]}),
        ("AgentSpec", {"instructions": "Be short.", "tools": ["calculator", {"tool": "recall"}]}),
    ],
)
def test_body_that_is_taken_fits_its_schema(schema: str, body: dict[str, Any]) -> None:
    whole = {"$ref": f"#/components/schemas/{schema}", "components": document()["components"]}
    Draft202012Validator(whole).validate(body)


def test_document_is_served_as_json() -> None:
    assert json.loads(as_text()) == document()


def references(part: Any) -> list[str]:
    """Every reference in a part of the document, and the targets of discriminators."""
    match part:
        case {"$ref": str(place), **rest}:
            return [place, *references(rest)]
        case dict():
            return [place for value in part.values() for place in references(value)]
        case list():
            return [place for value in part for place in references(value)]
        case _:
            return []
