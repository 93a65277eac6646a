"""Stands in for the AWS Lambda Web Adapter where its layer cannot be had: answers an invocation over a web server.

What it does as the adapter does: it starts the function's server, waits for its port, turns the event of a REST API
into a request (path without the stage, the request's context as a header) and the response into what API Gateway
reads. What it does not: it answers whole, where the adapter streams. It runs as a layer, so it is one file with nothing
but the standard library.
"""

import base64
import http.client
import json
import os
import subprocess
import time
import urllib.request
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

CONTEXT_HEADER = "x-amzn-request-context"
_START_S = 20
_TEXTS = ("text/", "application/json")


class WebRequest(NamedTuple):
    """A request as the server gets it."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


def request_of(event: Mapping[str, Any]) -> WebRequest:
    """The request that an event of a REST API stands for."""
    query = event.get("multiValueQueryStringParameters") or event.get("queryStringParameters") or {}
    target = quote(event["path"], safe="/%:@") + (f"?{urlencode(query, doseq=True)}" if query else "")
    text = event.get("body") or ""
    body = base64.b64decode(text) if event.get("isBase64Encoded") else text.encode()
    context = json.dumps(event["requestContext"], ensure_ascii=False).encode().decode("latin-1")
    return WebRequest(event["httpMethod"], target, {**(event.get("headers") or {}), CONTEXT_HEADER: context}, body)


def response_of(status: int, headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
    """The answer that API Gateway reads."""
    is_text = headers.get("content-type", "").startswith(_TEXTS)
    return {
        "statusCode": status,
        "headers": dict(headers),
        "body": body.decode() if is_text else base64.b64encode(body).decode(),
        "isBase64Encoded": not is_text,
    }


def ask(port: int, request: WebRequest) -> dict[str, Any]:
    """What the server on this port answers."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(request.method, request.target, request.body, dict(request.headers))
        answer = connection.getresponse()
        return response_of(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
    finally:
        connection.close()


def main() -> None:
    """Serves invocations until the environment is taken down."""
    port = int(os.environ["AWS_LWA_PORT"])
    program = os.path.join(os.environ["LAMBDA_TASK_ROOT"], os.environ["_HANDLER"])
    subprocess.Popen([program], cwd=os.environ["LAMBDA_TASK_ROOT"])
    _wait_for(port)
    invocations = f"http://{os.environ['AWS_LAMBDA_RUNTIME_API']}/2018-06-01/runtime/invocation"
    while True:
        with urllib.request.urlopen(f"{invocations}/next") as following:  # noqa: S310 (Lambda's own)
            request_id, event = following.headers["Lambda-Runtime-Aws-Request-Id"], json.load(following)
        answer = json.dumps(ask(port, request_of(event))).encode()
        urllib.request.urlopen(f"{invocations}/{request_id}/response", answer).close()  # noqa: S310


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + _START_S
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
        try:
            connection.connect()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        finally:
            connection.close()


if __name__ == "__main__":
    main()
