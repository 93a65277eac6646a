"""Drives the HTTP API as a client does: through the front door, or through the gateway where that answers itself."""

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
from starlette.applications import Starlette

from stepagent.runs import RunKey
from stepagent.store.conversation import load_history
from stepagent.store.runs import load_run
from tests.conformance import wire
from tests.conformance.cases import Case, Json, Unsupported
from tests.conformance.evidence import Answer, Evidence
from tests.conformance.stage import API_MODEL, Stage
from tests.conformance.wire import Script, Wire
from tests.local_loop import API_KEY

CHAT = "/chat/completions"
_BODY = {"model": "agent", "messages": [{"role": "user", "content": "hi"}]}
_TEXT = "Hello there."
_REPLIES = 40


def drive_api(stage: Stage, case: Case) -> Iterator[Evidence]:
    """Sends the requests of a case in order; one piece of evidence holds all their answers."""
    given = case.input
    evidence = Evidence()
    for request in _requests(given):
        script = _script({**given, **request})
        with stage.api_turn:
            stage.models.scripts[API_MODEL] = script
            evidence.answers.append(_send(stage, request))
        evidence.requests += script.requests
    _add_run(evidence)
    yield evidence


def _requests(given: Json) -> list[Json]:
    """Each request as method, path, headers and content."""
    common: Json = {name: given[name] for name in ("path", "method", "headers", "no_auth") if name in given}
    if "requests" in given:
        return [_request({**common, **each}) for each in given["requests"]]
    if "bodies_raw" in given:
        return [_request({**common, "content": each}) for each in given["bodies_raw"]]
    bodies = given.get("bodies", [given.get("body", _BODY)])
    return [_request({**common, "body": each}) for each in bodies]


def _request(row: Json) -> Json:
    content = row.get("content", row.get("body_raw"))
    if content is None and row.get("method", "POST") not in ("GET", "OPTIONS", "DELETE"):
        content = json.dumps(row.get("body", _BODY))
    return {"method": "POST", "path": CHAT, "headers": {}, **row, "content": content}


def _send(stage: Stage, request: Json) -> Answer:
    """Whatever only the gateway can answer goes to it; a fault that it alone can show is asked of it as well."""
    headers = {"content-type": "application/json", **request["headers"]}
    named = {name.lower() for name in headers}
    at_gateway = request.get("no_auth") or request["method"] == "OPTIONS" or "origin" in named
    client = stage.gateway if at_gateway else stage.door
    if at_gateway and not request.get("no_auth") and request["method"] != "OPTIONS":
        headers = {"authorization": f"Bearer {API_KEY}", **headers}
    path = re.sub(r"^/?v1(?=/)", "", str(request["path"]))
    content = request["content"]
    try:
        reply = client.request(request["method"], path, content=content, headers=headers)
        text = reply.text
    except httpx.TransportError as error:
        return Answer(0, {}, f"{type(error).__name__}: {error}")
    return Answer(reply.status_code, {k.lower(): v for k, v in reply.headers.items()}, text, str(client.base_url))


def _script(given: Json) -> Script:
    """What the model behind the agent says, or how it fails."""
    if fault := given.get("fault"):
        return Script([wire.response(fault)], repeat=True) if isinstance(fault, dict) else _faulty(str(fault))
    if "turns" in given:
        return Script([wire.step(turn) for turn in given["turns"]])
    if "responses" in given:
        return Script([wire.response(row) for row in given["responses"]], repeat=True)
    if "response" in given:
        return Script([wire.streamed(given["response"])] * _REPLIES)
    if "chunks" in given:
        return Script([wire.events(given["chunks"], done=given.get("done_marker", True))])
    pause_s = float(given.get("model_delay_s", given.get("model_delay_ms", 0) / 1000))
    reply = wire.streamed(wire.completion({"content": str(given.get("model_text", _TEXT))}))
    if pause_s:
        reply = Wire([wire.Part(part.content, pause_s if n == 0 else 0) for n, part in enumerate(reply.parts)])
    return Script([reply] * _REPLIES)


def _faulty(fault: str) -> Script:
    words = fault.lower()
    if "mid" in words or "after" in words or "stream" in words or "partial" in words:
        half = wire.in_pieces(["Hel", "lo"])
        return Script([Wire(half.parts[:2], 200, half.headers, reset=True)], repeat=True)
    if "rate" in words or "429" in words:
        return Script([wire.whole({"error": {"message": "slow down"}}, 429)], repeat=True)
    if "quota" in words or "402" in words:
        return Script([wire.whole({"error": {"message": "quota", "code": "insufficient_quota"}}, 429)], repeat=True)
    if "timeout" in words or "handler" in words or "exception" in words or "crash" in words:
        return Script([wire.whole({"error": {"message": "refused"}}, 400)], repeat=True)
    if any(word in words for word in ("model", "provider", "upstream", "500", "error")):
        return Script([wire.whole({"error": {"message": "broken"}}, 401)], repeat=True)
    raise Unsupported(f"this runner cannot inject the fault {fault!r}")


def _add_run(evidence: Evidence) -> None:
    """The run that the last answer names, with its messages."""
    for answer in reversed(evidence.answers):
        if found := re.search(r"run_[a-z0-9]+_\d+", answer.headers.get("x-stepagent-run-id", "") + answer.text):
            key = RunKey.parse(found[0])
            evidence.run, evidence.entries = load_run(key), load_history(key.session)
            break
    for answer in evidence.answers:
        for chunk in answer.chunks if answer.text.startswith((":", "data", "event")) else []:
            evidence.deltas += _contents(chunk)
    evidence.visible = "".join(evidence.deltas) or "\n".join(answer.text for answer in evidence.answers)


def _contents(chunk: Any) -> list[str]:
    choices = chunk.get("choices", []) if isinstance(chunk, dict) else []
    return [text for choice in choices if (text := choice.get("delta", {}).get("content"))]


async def to_application(app: Starlette, event: Json, principal: str) -> Answer:
    """A gateway event to a web application, as the Web Adapter passes it."""
    context = json.dumps({"authorizer": {"principalId": principal}})
    headers = {**event["headers"], "x-amzn-request-context": context}
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://function") as client:
        reply = await client.request(event["method"], event["path"], content=event["content"], headers=headers)
    return Answer(reply.status_code, dict(reply.headers), reply.text)
