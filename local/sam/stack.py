"""The functions of a local stack, and what each answers to a sample event."""

import asyncio
import json
import runpy
import sys
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import httpx
from starlette.types import ASGIApp

from local.deploy import STACK_NAME, client
from local.emulator import Emulator
from local.sam.samples import Sample, logical_ids
from local.sam.web_adapter import WebRequest, request_of, response_of

_TIMEOUT_S = 60


class SampleStack:
    """Answers as `make up` does: functions as processes, the web server as part of this one."""

    def __init__(self, emulator: Emulator, root: Path) -> None:
        self._functions = client(emulator, "lambda")
        self._root = root
        self.logical_ids = logical_ids(root)
        resources = client(emulator, "cloudformation").describe_stack_resources(StackName=STACK_NAME)["StackResources"]
        self._names = {found["LogicalResourceId"]: found["PhysicalResourceId"] for found in resources}

    @cached_property
    def variables(self) -> dict[str, str]:
        """All settings that the stack gives to its functions; each has the same value wherever it stands."""
        listed = self._functions.get_paginator("list_functions").paginate()
        functions = [function for page in listed for function in page["Functions"]]
        settings = [function.get("Environment", {}).get("Variables", {}) for function in functions]
        return {name: value for variables in settings for name, value in variables.items()}

    def answer(self, sample: Sample, text: str | None = None) -> Any:
        """What the function answers to the sample, or to this text in its place; of an exception, its name."""
        event = text if text is not None else sample.path.read_text()
        name = self._names.get(self.logical_ids[sample.function])
        if name is None:  # a web server, which no emulator of Lambda runs
            return ask_web_app(self._root / "functions" / sample.function, json.loads(event))
        return json.load(self._functions.invoke(FunctionName=name, Payload=event)["Payload"])


def ask_web_app(folder: Path, event: Mapping[str, Any]) -> dict[str, Any]:
    """What the web server of a function answers to an event of a REST API, read to its end."""
    sys.path.insert(0, str(folder))  # a function's folder is an import root
    try:
        app: ASGIApp = runpy.run_path(str(folder / "app.py"))["served"]
    finally:
        sys.path.remove(str(folder))
    return asyncio.run(_ask(app, request_of(event)))


async def _ask(app: ASGIApp, request: WebRequest) -> dict[str, Any]:
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://function", timeout=_TIMEOUT_S) as web:
        headers = [(name.encode(), value.encode("latin-1")) for name, value in request.headers.items()]
        answer = await web.request(request.method, request.target, content=request.body, headers=headers)
    return response_of(
        answer.status_code, {name.lower(): value for name, value in answer.headers.items()}, answer.content
    )
