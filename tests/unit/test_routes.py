"""The routes of the code and those of the template are the same, and what streams is deployed to stream."""

from typing import Any

import pytest
from samtranslator.yaml_helper import yaml_parse
from starlette.routing import Route

from tests.functions import ROOT, load

TEMPLATE: dict[str, Any] = yaml_parse((ROOT / "template.yaml").read_text())
FUNCTIONS = {name: TEMPLATE["Resources"][name]["Properties"] for name in ("ApiFunction", "StreamFunction")}


def deployed(function: str) -> set[tuple[str, str]]:
    """Method and path of each route that API Gateway passes to a function."""
    events = [event for event in FUNCTIONS[function]["Events"].values() if event["Type"] == "Api"]
    return {(event["Properties"]["Method"].upper(), event["Properties"]["Path"]) for event in events}


def test_routes_that_answer_at_once_are_those_of_the_code() -> None:
    app = load("api", "app").app
    routes = [*app._static_routes, *app._dynamic_routes]
    written = {(route.method, route.path.replace("<", "{").replace(">", "}")) for route in routes}
    assert deployed("ApiFunction") == written


def test_routes_that_stream_are_those_of_the_code() -> None:
    routes = [route for route in load("stream", "app").app.routes if isinstance(route, Route)]
    written = {(method, route.path) for route in routes for method in (route.methods or set()) - {"HEAD"}}
    assert deployed("StreamFunction") == written


@pytest.mark.parametrize("route", FUNCTIONS["StreamFunction"]["Events"])
def test_route_of_the_streaming_function_streams_for_as_long_as_it_may_run(route: str) -> None:
    event = FUNCTIONS["StreamFunction"]["Events"][route]["Properties"]
    assert event["ResponseTransferMode"] == "RESPONSE_STREAM"
    assert event["TimeoutInMillis"] == 1000 * FUNCTIONS["StreamFunction"]["Timeout"]
