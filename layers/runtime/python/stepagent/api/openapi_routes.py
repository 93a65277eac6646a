"""The routes of the API as a table: what each takes, and what it answers with."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from pydantic import BaseModel

from stepagent.agents import AgentSpec
from stepagent.api import openapi_replies as replies
from stepagent.api.batch_requests import BatchesQuery, BatchRequest, ResultsQuery
from stepagent.api.events import EventsQuery
from stepagent.api.interactions import InteractionsQuery
from stepagent.api.query import VersionQuery
from stepagent.api.requests import AnswerRequest, ChatRequest
from stepagent.api.responses_requests import ResponseRequest
from stepagent.api.runs import EntriesQuery, RunRequest, RunsQuery
from stepagent.errors import (
    BodyTooLarge,
    BudgetSpent,
    Conflict,
    Expired,
    Forbidden,
    IdempotencyKeyReused,
    InvalidAnswer,
    InvalidRequest,
    NotFound,
    PreconditionFailed,
    RequestError,
)
from stepagent.tool_specs import ToolSpec


class Answered(NamedTuple):
    """A reply that is no error. Without a body it has no `model`; with `streams` it can also be server-sent events."""

    status: int
    description: str
    model: type[BaseModel] | dict[str, Any] | None = None
    streams: bool = False


class Operation(NamedTuple):
    """One method of one path. `headers` are those of the request, `raises` the refusals beside those of every route."""

    method: str
    path: str
    name: str
    summary: str
    answers: Sequence[Answered]
    body: type[BaseModel] | None = None
    query: type[BaseModel] | None = None
    headers: Sequence[str] = ()
    raises: Sequence[type[RequestError]] = ()


_ONCE = ("Idempotency-Key",)
_CONDITIONS = ("If-Match", "If-None-Match")
_BODY = (InvalidRequest, BodyTooLarge)
_BEGINS = (*_BODY, NotFound, Conflict, IdempotencyKeyReused, BudgetSpent)
_CHANGES = (*_BODY, Forbidden, NotFound, Conflict, PreconditionFailed)
_RUN = Answered(200, "The run.", replies.RunView)
_BATCH = Answered(200, "The batch.", replies.BatchView)
_INTERACTION = Answered(200, "The question.", replies.InteractionView)


def _catalog(kind: str, body: type[BaseModel]) -> list[Operation]:
    one, row = f"/{kind}s/{{name}}", Answered(200, "The row, with its version as ETag.", replies.Row)
    made = Answered(201, "The row is new.", replies.Row)
    return [
        Operation(
            *("GET", f"/{kind}s", f"list_{kind}s", f"Lists the {kind}s of the catalog."),
            [Answered(200, "All, by name.", replies.RowList)],
        ),
        Operation(
            *("GET", one, f"read_{kind}", f"Reads one {kind}."),
            [row],
            query=VersionQuery,
            raises=(InvalidRequest, NotFound),
        ),
        Operation(
            *("PUT", one, f"put_{kind}", f"Makes or changes one {kind}; this needs the scope `catalog`."),
            [row, made],
            body=body,
            headers=_CONDITIONS,
            raises=_CHANGES,
        ),
        Operation(
            *("DELETE", one, f"delete_{kind}", f"Deletes one {kind}; its versions stay readable."),
            [Answered(204, "It is gone.")],
            headers=_CONDITIONS,
            raises=(InvalidRequest, Forbidden, NotFound, Conflict, PreconditionFailed),
        ),
    ]


OPERATIONS: Sequence[Operation] = (
    Operation(
        *("POST", "/chat/completions", "complete_chat", "Asks an agent, as OpenAI's chat completions."),
        [
            Answered(200, "The answer, or the question of a run that waits.", replies.ChatCompletion, streams=True),
            Answered(202, "The run goes on; the same Idempotency-Key joins it.", replies.ChatCompletion),
            Answered(502, "The run failed.", replies.Error),
        ],
        body=ChatRequest,
        headers=_ONCE,
        raises=(*_BEGINS, InvalidAnswer, Expired),
    ),
    Operation(
        *("POST", "/responses", "create_response", "Asks an agent, as OpenAI's Responses API."),
        [
            Answered(200, "The response; `status` tells how the run ended.", replies.Response, streams=True),
            Answered(202, "The run goes on.", replies.Response),
        ],
        body=ResponseRequest,
        headers=_ONCE,
        raises=(*_BEGINS, InvalidAnswer, Expired),
    ),
    Operation(
        *("GET", "/responses/{response_id}", "read_response", "Reads a run as a response."),
        [Answered(200, "The response as it stands.", replies.Response)],
        raises=(InvalidRequest, NotFound),
    ),
    Operation(
        *("GET", "/models", "list_models", "Lists the agents, as clients list models."),
        [Answered(200, "All agents.", replies.ModelList)],
    ),
    Operation(
        *("GET", "/models/{name}", "read_model", "Reads an agent, as clients read a model."),
        [Answered(200, "The agent.", replies.Model)],
        raises=(NotFound,),
    ),
    Operation(
        *("POST", "/runs", "start_run", "Begins a run and returns at once."),
        [Answered(202, "The run, which `Location` names.", replies.RunView)],
        body=RunRequest,
        headers=_ONCE,
        raises=_BEGINS,
    ),
    Operation(
        *("GET", "/runs", "list_runs", "Lists your runs, the newest first."),
        [Answered(200, "One page.", replies.RunList)],
        query=RunsQuery,
        raises=(InvalidRequest, NotFound),
    ),
    Operation(*("GET", "/runs/{run_id}", "read_run", "Reads one run."), [_RUN], raises=(NotFound,)),
    Operation(
        *("POST", "/runs/{run_id}/cancel", "cancel_run", "Ends a run and everything that it began."),
        [_RUN],
        raises=(NotFound,),
    ),
    Operation(
        *("GET", "/runs/{run_id}/events", "follow_run", "Follows a run, from any event on, until it ends."),
        [
            Answered(200, "Server-sent events, each with its number as id.", None, streams=True),
            Answered(204, "Nothing will follow."),
        ],
        query=EventsQuery,
        headers=("Last-Event-ID",),
        raises=(InvalidRequest, NotFound, Expired),
    ),
    Operation(
        *("GET", "/runs/{run_id}/messages", "list_entries", "Reads what was said in a run."),
        [Answered(200, "One page.", replies.EntryList)],
        query=EntriesQuery,
        raises=(InvalidRequest, NotFound),
    ),
    Operation(
        *("POST", "/batches", "begin_batch", "Begins many runs; the same batch sent again goes on where it stopped."),
        [Answered(202, "The batch, which `Location` names.", replies.BatchView)],
        body=BatchRequest,
        headers=_ONCE,
        raises=(*_BODY, NotFound, IdempotencyKeyReused),
    ),
    Operation(
        *("GET", "/batches", "list_batches", "Lists your batches, the newest first."),
        [Answered(200, "One page.", replies.BatchList)],
        query=BatchesQuery,
        raises=(InvalidRequest, NotFound),
    ),
    Operation(*("GET", "/batches/{batch_id}", "read_batch", "Reads one batch."), [_BATCH], raises=(NotFound,)),
    Operation(
        *("POST", "/batches/{batch_id}/cancel", "cancel_batch", "Ends a batch and the runs that it began."),
        [_BATCH],
        raises=(NotFound,),
    ),
    Operation(
        *("GET", "/batches/{batch_id}/results", "list_results", "Reads what came of a batch's inputs."),
        [Answered(200, "One page, in the order of the inputs' ids.", replies.BatchResultList)],
        query=ResultsQuery,
        raises=(InvalidRequest, NotFound, Conflict),
    ),
    Operation(
        *("GET", "/sessions/{session_id}", "read_session", "Reads a conversation as it stands."),
        [Answered(200, "The session.", replies.Session)],
        raises=(NotFound,),
    ),
    Operation(
        *("GET", "/interactions", "list_interactions", "Lists the questions that wait for you."),
        [Answered(200, "One page, the oldest first.", replies.InteractionList)],
        query=InteractionsQuery,
        raises=(InvalidRequest, NotFound),
    ),
    Operation(
        *("GET", "/interactions/{interaction_id}", "read_interaction", "Reads one question."),
        [_INTERACTION],
        raises=(NotFound,),
    ),
    Operation(
        *("POST", "/interactions/{interaction_id}", "answer_interaction", "Answers a question, once."),
        [_INTERACTION],
        body=AnswerRequest,
        raises=(*_BODY, NotFound, Conflict, Expired, InvalidAnswer),
    ),
    *_catalog("agent", AgentSpec),
    *_catalog("tool", ToolSpec),
    Operation(
        *("GET", "/openapi.json", "read_openapi", "Reads this document."),
        [Answered(200, "The OpenAPI document.", {"type": "object"})],
    ),
)
