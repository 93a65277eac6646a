"""The function behind every tool of the cases: notes what it was given and does what the case's script says."""

import builtins
import datetime
import decimal
import json
import os
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stepagent.errors import ToolError
from stepagent.runs import CallKey, RunKey
from stepagent.store.calls import load_call
from stepagent.tools.execution import Invocation, execute

_NAMES = {"datetime": datetime, "decimal": decimal, "Decimal": decimal.Decimal, "uuid": uuid}
_FOR_EVER_S = 60


def handler(event: Mapping[str, str], context: object) -> dict[str, str]:
    run_id, call_id = event["run_id"], event["call_id"]
    name = load_call(RunKey.parse(run_id), CallKey.parse(call_id)).call.name
    folder = Path(os.environ["CASES_DIR"])
    script = json.loads((folder / f"{run_id}.json").read_text("utf-8"))

    def scripted(invocation: Invocation) -> Any:
        arguments = invocation.arguments
        line = json.dumps({"call_id": call_id, "name": name, "arguments": arguments}, ensure_ascii=False)
        with (folder / f"{run_id}.log").open("a", encoding="utf-8") as log:
            log.write(line + "\n")
        return _perform(name, script, arguments)

    execute(run_id, call_id, scripted)
    return {"call_id": call_id}


def _perform(name: str, script: Mapping[str, Any], arguments: Mapping[str, Any]) -> Any:
    delay = script["delay_ms"].get(name, 0)
    time.sleep(delay / 1000 if isinstance(delay, int | float) else _FOR_EVER_S)
    if name in script["raises"]:
        _raise(script["raises"][name])
    python = script["python"]
    expression = python.get(name) if isinstance(python, dict) else python
    if expression is not None:
        return eval(expression, dict(_NAMES))  # the case's own literal
    if name in script["chars"]:
        return "x" * int(script["chars"][name])
    if name in script["outputs"]:
        return script["outputs"][name]
    if name in script["stops"]:  # it answers itself, and says which question
        return next((value for value in arguments.values() if isinstance(value, str)), "ok")
    return "ok"


def _raise(what: Any) -> None:
    if isinstance(what, dict):
        kind, message = str(what.get("type", "RuntimeError")), str(what.get("message", ""))
    else:
        kind, _, message = str(what).partition(":")
    if kind == "ToolError":
        raise ToolError(message.strip())
    found = getattr(builtins, kind.strip().rstrip("()"), None)
    if isinstance(found, type) and issubclass(found, BaseException):
        raise found(message.strip())
    raise RuntimeError(str(what))
