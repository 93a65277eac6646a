"""The routes that answer at once."""

from typing import Any
from urllib.parse import unquote

from aws_lambda_powertools.event_handler import APIGatewayRestResolver, CORSConfig, Response, content_types
from batch_routes import add_batch_routes
from catalog_routes import add_routes
from run_routes import add_run_routes

from stepagent import answering
from stepagent.announcing import view
from stepagent.answering import answer
from stepagent.api import openapi, service, shapes
from stepagent.api.body import raw_body
from stepagent.api.cors import ALLOWED_HEADERS, EXPOSED_HEADERS, allowed_origins
from stepagent.api.interactions import InteractionsQuery, show_interactions
from stepagent.api.keys import Caller, caller_in
from stepagent.api.plans import with_live_plan
from stepagent.api.query import read_query
from stepagent.api.requests import read_answer_request
from stepagent.errors import NotFound, RequestError
from stepagent.observe import logger, observed

_ORIGINS = allowed_origins()
_CORS = CORSConfig(_ORIGINS[0], _ORIGINS[1:], list(ALLOWED_HEADERS), list(EXPOSED_HEADERS)) if _ORIGINS else None
app = APIGatewayRestResolver(cors=_CORS)


def _caller() -> Caller:
    found: Any = app.current_event.request_context.authorizer
    return caller_in(found)


@app.get("/models")
def list_models() -> dict[str, Any]:
    return shapes.models(service.agents(), service.models())


@app.get("/models/<name>")
def read_model(name: str) -> dict[str, Any]:
    return shapes.model(service.agent(unquote(name)), service.models())


@app.get("/openapi.json")
def read_openapi() -> dict[str, Any]:
    return openapi.document()


@app.get("/runs/<run_id>")
def read_run(run_id: str) -> dict[str, Any]:
    return shapes.run_view(with_live_plan(service.read_run(run_id, _caller().principal)))


@app.post("/runs/<run_id>/cancel")
def cancel_run(run_id: str) -> dict[str, Any]:
    return shapes.run_view(with_live_plan(service.cancel(run_id, _caller().principal)))


@app.get("/interactions")
def list_interactions() -> dict[str, Any]:
    query = read_query(app.current_event.query_string_parameters, InteractionsQuery)
    return show_interactions(query, _caller().principal)


@app.get("/interactions/<interaction_id>")
def read_interaction(interaction_id: str) -> dict[str, Any]:
    return view(answering.read_interaction(interaction_id, _caller().principal))


@app.post("/interactions/<interaction_id>")
def answer_interaction(interaction_id: str) -> dict[str, Any]:
    event = app.current_event
    request = read_answer_request(raw_body(event.body, is_base64=bool(event.is_base64_encoded)))
    return view(answer(interaction_id, _caller().principal, request.answer))


add_routes(app, "agent", _caller)
add_routes(app, "tool", _caller)
add_run_routes(app, _caller)
add_batch_routes(app, _caller)


@app.not_found
def miss(error: Exception) -> Response[dict[str, Any]]:
    missing = NotFound("There is nothing at this path.")
    return Response(missing.http_status, content_types.APPLICATION_JSON, shapes.refusal(missing))


@app.exception_handler(RequestError)  # type: ignore[untyped-decorator]  # Powertools leaves its type open
def refuse(error: RequestError) -> Response[dict[str, Any]]:
    return Response(error.http_status, content_types.APPLICATION_JSON, shapes.refusal(error))


@app.exception_handler(Exception)  # type: ignore[untyped-decorator]  # Powertools leaves its type open
def report(error: Exception) -> Response[dict[str, Any]]:
    logger.error("request failed", exc_info=error)
    return Response(500, content_types.APPLICATION_JSON, shapes.defect(error))


handler = observed(app.resolve)
