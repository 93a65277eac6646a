"""The tool `http_request`."""

from typing import Annotated, Any, Literal

from pydantic import Field
from requesting import request

from stepagent.tools import ToolContext, tool


@tool
def handler(
    url: Annotated[
        str, Field(max_length=8192, description="Absolute URL, such as https://api.example.com/items?page=2.")
    ],
    context: ToolContext,
    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"] = "GET",
    headers: Annotated[
        dict[str, str],
        Field(
            description="Accept, Accept-Language, Content-Type, Idempotency-Key, If-Match, If-Modified-Since, "
            "If-None-Match, If-Unmodified-Since, Prefer or Range."
        ),
    ] = {},  # noqa: B006
    body: Annotated[str, Field(description="Text of the request's body; JSON is sent as such.")] = "",
) -> dict[str, Any]:
    """Send an HTTP request to a server that this deployment allows, and read the answer."""
    return request(method, url, headers, body, context.deadline)
