"""The routes of runs and sessions, beside reading and cancelling one run: begin, list, read what was said."""

from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

from aws_lambda_powertools.event_handler import APIGatewayRestResolver, Response, content_types

from stepagent.api import runs
from stepagent.api.body import raw_body
from stepagent.api.keys import Caller
from stepagent.api.query import Query, read_query
from stepagent.api.requests import read_idempotency_key
from stepagent.api.responses import show_response


def add_run_routes(app: APIGatewayRestResolver, caller: Callable[[], Caller]) -> None:
    """Adds the routes."""

    @app.post("/runs")
    def start_run() -> Response[dict[str, Any]]:
        event = app.current_event
        request = runs.read_run_request(raw_body(event.body, is_base64=bool(event.is_base64_encoded)))
        key = read_idempotency_key(event.headers.get("Idempotency-Key"))
        run = runs.start_run(request, caller(), key)
        headers: dict[str, str | list[str]] = {"Location": f"/v1/runs/{run['run_id']}"}
        return Response(202, content_types.APPLICATION_JSON, run, headers)

    @app.get("/runs")
    def list_runs() -> dict[str, Any]:
        query = read_query(app.current_event.query_string_parameters, runs.RunsQuery)
        return runs.show_runs(query, caller().principal)

    @app.get("/runs/<run_id>/messages")
    def list_entries(run_id: str) -> dict[str, Any]:
        query = read_query(app.current_event.query_string_parameters, runs.EntriesQuery)
        return runs.show_conversation(run_id, query, caller().principal)

    @app.get("/sessions/<session_id>")
    def read_session(session_id: str) -> dict[str, Any]:
        return runs.show_session(unquote(session_id), caller().principal)

    @app.get("/responses/<response_id>")
    def read_response(response_id: str) -> dict[str, Any]:
        read_query(app.current_event.query_string_parameters, Query)  # there is none that is supported
        return show_response(response_id, caller().principal)
