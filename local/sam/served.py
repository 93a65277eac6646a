"""A small web server in a thread of this process, for as long as a command needs it."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

_END_S = 10


@contextmanager
def served(app: ASGIApp, address: str = "127.0.0.1") -> Iterator[str]:
    """The URL of the application on a free port of this address.

    Raises:
        OSError: this machine has no such address.
    """
    with socket.create_server((address, 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, lifespan="off"))
        thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        try:
            yield f"http://{address}:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(_END_S)
