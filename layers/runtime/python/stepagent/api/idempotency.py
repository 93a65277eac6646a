"""Requests that come again: the first one begins something, the others join it."""

import hashlib
from datetime import timedelta

from stepagent.api.requests import ChatRequest
from stepagent.errors import IdempotencyKeyReused
from stepagent.runs import Principal
from stepagent.store.idempotency import Begun, IdempotencyKey, find_begun

_REQUEST_KEPT = timedelta(hours=24)
# A message lives for two weeks, and for two more when it is moved back from the dead-letter queue, which sends it anew.
_JOB_KEPT = timedelta(days=30)


def request_key(request: ChatRequest, principal: Principal, name: str) -> IdempotencyKey:
    """The key of an HTTP request, as its header `Idempotency-Key` names it."""
    return IdempotencyKey("request", principal, name, _digest(request), _REQUEST_KEPT)


def job_key(request: ChatRequest, principal: Principal, name: str) -> IdempotencyKey:
    """The key of a job: its sender's id for it, or its message's."""
    return IdempotencyKey("job", principal, name, _digest(request), _JOB_KEPT)


def find_job(principal: Principal, name: str) -> Begun | None:
    """What was begun for a job with this id, whatever it said, or None."""
    found = find_begun(IdempotencyKey("job", principal, name, "", _JOB_KEPT))
    return found.begun if found else None


def begun_with(key: IdempotencyKey) -> Begun | None:
    """What was begun with this key, or None.

    Raises:
        IdempotencyKeyReused: it was begun by a request that said something else.
    """
    found = find_begun(key)
    if found and found.digest != key.digest:
        raise IdempotencyKeyReused("This key was sent before, with another request.", "Idempotency-Key")
    return found.begun if found else None


def _digest(request: ChatRequest) -> str:
    """Of what the request says, not of its bytes: neither spaces nor the order of its fields make it another one."""
    return hashlib.sha256(request.model_dump_json(exclude_defaults=True).encode()).hexdigest()
