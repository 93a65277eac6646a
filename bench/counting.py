"""A front of the emulator that counts what the product asks of DynamoDB, S3 and EventBridge, in all of its processes.

Functions are pointed at it by boto3's own `AWS_ENDPOINT_URL_DYNAMODB`; neither they nor the emulator are changed. It
costs each request some milliseconds, so nothing is timed behind it.
"""

import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bench.capacity import units_of
from bench.serving import serving
from bench.spans import Span
from bench.stack import measured_stack
from tests.local_loop import LocalLoop, forget

_DROPPED = frozenset({"host", "content-length", "transfer-encoding", "connection"})
_QUIET_S = 2.0
_METHODS = ["GET", "HEAD", "POST", "PUT", "DELETE"]


class Counted(NamedTuple):
    """One request: when it was answered, and what it moved and costs."""

    at: float
    operation: str  # such as Query, PutEvents or `S3 PUT`
    sent_bytes: int
    received_bytes: int
    read_units: float
    write_units: float


class Counter:
    """What was asked since it was started."""

    def __init__(self, upstream: httpx.AsyncClient) -> None:
        self.counted: list[Counted] = []
        self._upstream = upstream
        self.app = Starlette(routes=[Route("/{path:path}", self._pass_on, methods=_METHODS)])

    def wait_until_quiet(self) -> None:
        """Returns when nothing was asked for a while, so that whatever was begun has ended or waits."""
        seen = -1
        while seen < len(self.counted):
            seen = len(self.counted)
            time.sleep(_QUIET_S)

    def within(self, span: Span) -> Sequence[Counted]:
        return [each for each in self.counted if span.began < each.at <= span.ended]

    async def _pass_on(self, http: Request) -> Response:
        body = await http.body()
        service, _, operation = http.headers.get("x-amz-target", f"S3.S3 {http.method}").rpartition(".")
        asked = json.loads(body) if service.startswith("DynamoDB") else {}
        sent = json.dumps(asked | {"ReturnConsumedCapacity": "TOTAL"}).encode() if asked else body
        headers = [(name, value) for name, value in http.headers.items() if name not in _DROPPED]
        url = http.url.path + (f"?{http.url.query}" if http.url.query else "")
        answer = await self._upstream.request(http.method, url, headers=headers, content=sent)
        self._count(operation, asked, len(body), answer)
        kept = {name: value for name, value in answer.headers.items() if name not in _DROPPED}
        return Response(answer.content, answer.status_code, kept)

    def _count(self, operation: str, asked: dict[str, Any], sent_bytes: int, answer: httpx.Response) -> None:
        answered: dict[str, Any] = answer.json() if asked else {}
        units = units_of(operation, asked, answered)
        if asked and answered.pop("ConsumedCapacity", None):  # nobody but us asked for it
            received = len(json.dumps(answered, separators=(",", ":"), ensure_ascii=False).encode())
        else:
            received = len(answer.content)
        self.counted.append(Counted(time.time(), operation, sent_bytes, received, *units))


@contextmanager
def counted_stack(base_url: str) -> Iterator[tuple[LocalLoop, Counter]]:
    """The deployed product behind a counter, this process included."""
    with measured_stack(base_url) as loop:
        counter = Counter(httpx.AsyncClient(base_url=loop.emulator.endpoint, trust_env=False, timeout=60))
        with serving(counter.app) as url:
            variables = {f"AWS_ENDPOINT_URL_{service}": url for service in ("DYNAMODB", "S3", "EVENTBRIDGE")}
            _point_functions(loop, variables)
            os.environ |= variables | {"EVENT_BUS_NAME": "default"}  # the stack restores it
            forget()
            yield loop, counter


def _point_functions(loop: LocalLoop, variables: dict[str, str]) -> None:
    functions = loop.client("lambda")
    for page in functions.get_paginator("list_functions").paginate():
        for function in page["Functions"]:
            environment = function.get("Environment", {}).get("Variables", {})
            functions.update_function_configuration(
                FunctionName=function["FunctionName"], Environment={"Variables": environment | variables}
            )
