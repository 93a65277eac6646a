"""The routes of the catalog: `/agents` and `/tools`, read by every caller, changed by keys with the scope `catalog`."""

from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

from aws_lambda_powertools.event_handler import APIGatewayRestResolver, Response, content_types

from stepagent.api import catalog
from stepagent.api.body import raw_body
from stepagent.api.keys import Caller
from stepagent.api.preconditions import Precondition
from stepagent.api.query import VersionQuery, read_query
from stepagent.rows import Row, RowKey, RowKind


def add_routes(app: APIGatewayRestResolver, kind: RowKind, caller: Callable[[], Caller]) -> None:
    """Adds the routes of one kind of rows."""

    @app.get(f"/{kind}s")
    def list_rows() -> dict[str, Any]:
        return catalog.show_rows(kind, caller())

    @app.get(f"/{kind}s/<name>")
    def read_row(name: str) -> Response[dict[str, Any]]:
        query = read_query(app.current_event.query_string_parameters, VersionQuery)
        return _shown(catalog.find_row(_key(name), query.version), caller())

    @app.put(f"/{kind}s/<name>")
    def put_row(name: str) -> Response[dict[str, Any]]:
        body = raw_body(app.current_event.body, is_base64=bool(app.current_event.is_base64_encoded))
        changed = catalog.put_row(_key(name), body, _precondition(), caller())
        return _shown(changed.row, caller(), status=201 if changed.created else 200)

    @app.delete(f"/{kind}s/<name>")
    def delete_row(name: str) -> Response[str]:
        catalog.delete_row(_key(name), _precondition(), caller())
        return Response(204, body="")

    def _key(name: str) -> RowKey:
        return RowKey(kind, unquote(name))  # a REST API passes the path as it was sent

    def _precondition() -> Precondition:
        headers = app.current_event.headers
        return Precondition(headers.get("If-Match") or "", headers.get("If-None-Match") or "")


def _shown(row: Row, caller: Caller, status: int = 200) -> Response[dict[str, Any]]:
    headers: dict[str, str | list[str]] = {"ETag": f'"{row.version}"'}
    return Response(status, content_types.APPLICATION_JSON, catalog.show_row(row, caller), headers)
