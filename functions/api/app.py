"""The routes that answer at once."""

from typing import Any

from aws_lambda_powertools.event_handler import APIGatewayRestResolver, Response, content_types

from stepagent.api import service, shapes
from stepagent.api.requests import read_answer_request
from stepagent.errors import RequestError
from stepagent.interactions import answer
from stepagent.observe import logger
from stepagent.runs import Principal

app = APIGatewayRestResolver()


def _principal() -> Principal:
    return Principal(app.current_event.request_context.authorizer["principalId"])


@app.get("/models")
def list_models() -> dict[str, Any]:
    return shapes.models(service.catalog().agents, service.models())


@app.get("/runs/<run_id>")
def read_run(run_id: str) -> dict[str, Any]:
    return shapes.run_view(service.read_run(run_id, _principal()))


@app.post("/interactions/<interaction_id>")
def answer_interaction(interaction_id: str) -> dict[str, Any]:
    request = read_answer_request((app.current_event.decoded_body or "").encode())
    question = answer(interaction_id, _principal(), request.answer)
    return question.model_dump(mode="json", exclude={"owner"})


@app.exception_handler(RequestError)  # type: ignore[untyped-decorator]  # Powertools leaves its type open
def refuse(error: RequestError) -> Response[dict[str, Any]]:
    return Response(error.http_status, content_types.APPLICATION_JSON, shapes.refusal(error))


@app.exception_handler(Exception)  # type: ignore[untyped-decorator]  # Powertools leaves its type open
def report(error: Exception) -> Response[dict[str, Any]]:
    logger.error("request failed", exc_info=error)
    return Response(500, content_types.APPLICATION_JSON, shapes.defect(error))


handler = app.resolve
