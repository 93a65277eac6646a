"""The routes of batches."""

from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

from aws_lambda_powertools.event_handler import APIGatewayRestResolver, Response, content_types

from stepagent.api import batches
from stepagent.api.batch_requests import BatchesQuery, ResultsQuery, read_batch_request
from stepagent.api.body import raw_body
from stepagent.api.keys import Caller
from stepagent.api.query import read_query
from stepagent.api.requests import read_idempotency_key


def add_batch_routes(app: APIGatewayRestResolver, caller: Callable[[], Caller]) -> None:
    """Adds the routes."""

    @app.post("/batches")
    def begin_batch() -> Response[dict[str, Any]]:
        event = app.current_event
        request = read_batch_request(raw_body(event.body, is_base64=bool(event.is_base64_encoded)))
        key = read_idempotency_key(event.headers.get("Idempotency-Key"))
        batch = batches.begin_batch(request, caller(), key)
        headers: dict[str, str | list[str]] = {"Location": f"/v1/batches/{batch['batch_id']}"}
        return Response(202, content_types.APPLICATION_JSON, batch, headers)

    @app.get("/batches")
    def list_batches() -> dict[str, Any]:
        query = read_query(app.current_event.query_string_parameters, BatchesQuery)
        return batches.show_batches(query, caller().principal)

    @app.get("/batches/<batch_id>")
    def read_batch(batch_id: str) -> dict[str, Any]:
        return batches.show_batch(unquote(batch_id), caller().principal)

    @app.post("/batches/<batch_id>/cancel")
    def cancel_batch(batch_id: str) -> dict[str, Any]:
        return batches.cancel(unquote(batch_id), caller().principal)

    @app.get("/batches/<batch_id>/results")
    def list_results(batch_id: str) -> dict[str, Any]:
        query = read_query(app.current_event.query_string_parameters, ResultsQuery)
        return batches.show_results(unquote(batch_id), query, caller().principal)
