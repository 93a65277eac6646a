"""A real MCP server on 127.0.0.1, made with the official package, for tests: it does what its tools are told to.

`tools` is what it lists, `answers` what calls of its tools come to; both may change while it runs.
"""

import json
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, Self

import mcp_types as types
import uvicorn
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

Context = ServerRequestContext[Any]
Result = types.CallToolResult | types.InputRequiredResult
Answer = Callable[[Context, Mapping[str, Any]], Awaitable[Result]]
NO_ARGUMENTS: dict[str, Any] = {"type": "object", "properties": {}}


def a_listed_tool(name: str, description: str = "A tool.", schema: Any = None, **fields: Any) -> types.Tool:
    return types.Tool(name=name, description=description, input_schema=schema or NO_ARGUMENTS, **fields)


def text(said: str, **fields: Any) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=said)], **fields)


def answering(result: Result) -> Answer:
    async def answer(context: Context, arguments: Mapping[str, Any]) -> Result:
        return result

    return answer


class McpServer:
    """A server as a context manager.

    `headers` are those of each HTTP request, `requests` what each asked for, `calls` the tools that were called.
    An `era` makes it refuse what another one's protocol says: before 2026 a session began with a handshake.
    """

    def __init__(
        self, *tools: types.Tool, era: Literal["both", "handshake", "modern"] = "both", page: int = 1_000
    ) -> None:
        self.era, self.page = era, page
        self.reset(*tools)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else each answer waits 40 ms for an ACK
        self.port: int = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        server: Server[Any] = Server(
            "tests", on_list_tools=self._list, on_call_tool=self._call, get_tool_input_schema=self._schema
        )
        self._app = server.streamable_http_app()
        config = uvicorn.Config(self._serve, log_config=None, log_level="critical", interface="asgi3")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        while not self._server.started:
            time.sleep(0.002)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def reset(self, *tools: types.Tool) -> None:
        """Offers these tools, and forgets what it was asked."""
        self.tools = list(tools)
        self.answers: dict[str, Answer] = {}
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.listings = 0
        self.requests: list[str] = []
        self.headers: list[dict[str, str]] = []

    def stop(self) -> None:
        """Ends the server, and with it every open stream."""
        self._server.should_exit = self._server.force_exit = True
        self._thread.join(timeout=5)
        self._socket.close()

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = {name.decode(): value.decode() for name, value in scope["headers"]}
            self.headers.append(headers)
            self.requests.append(f"{scope['method']} {headers.get('mcp-method', '')}".strip())
            era = "modern" if headers.get("mcp-protocol-version", "") > "2026" else "handshake"
            if self.era not in ("both", era):
                await _refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _list(self, context: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        self.listings += 1
        start = int(params.cursor) if params and params.cursor else 0
        end = start + self.page
        return types.ListToolsResult(
            tools=self.tools[start:end], next_cursor=str(end) if end < len(self.tools) else None
        )

    def _schema(self, name: str) -> dict[str, Any] | None:
        return next((tool.input_schema for tool in self.tools if tool.name == name), None)

    async def _call(self, context: Context, params: types.CallToolRequestParams) -> Result:
        arguments = params.arguments or {}
        self.calls.append((params.name, arguments))
        if params.name not in [tool.name for tool in self.tools]:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name}")
        answer = self.answers.get(params.name)
        return await answer(context, arguments) if answer else text(json.dumps(arguments))


async def _refusal(scope: Scope, receive: Receive, send: Send) -> None:
    error = {"code": types.INVALID_REQUEST, "message": "Bad Request: Missing session ID"}
    await JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, 400)(scope, receive, send)
