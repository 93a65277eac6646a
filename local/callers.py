"""Who may call the servers of the local stack: programs and pages of this machine."""

from collections.abc import Awaitable, Callable, Iterable
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

_LOCAL_NAMES = frozenset({"127.0.0.1", "localhost", "::1"})
_REFUSAL = {
    "error": {
        "message": "Only programs and pages of this machine may call.",
        "type": "invalid_request_error",
        "param": None,
        "code": "forbidden",
    }
}


class LocalCallersOnly:
    """Turns away what a web page of another origin sends, also one whose name was made to point here."""

    def __init__(self, app: Callable[[Scope, Receive, Send], Awaitable[None]], open_below: str | None = None) -> None:
        """Whatever is below the path `open_below` may be asked by pages of any origin: it wants a key of its own."""
        self._app = app
        self._open_below = open_below

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not self._may_call(Request(scope)):
            await JSONResponse(_REFUSAL, 403)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _may_call(self, request: Request) -> bool:
        is_open = self._open_below is not None and request.scope["path"].startswith(self._open_below)
        origins = [] if is_open else request.headers.getlist("origin")
        return _are_local([f"//{request.headers.get('host', '')}", *origins])


def _are_local(asked: Iterable[str]) -> bool:
    try:
        return all(urlsplit(text).hostname in _LOCAL_NAMES for text in asked)
    except ValueError:  # no name at all
        return False
