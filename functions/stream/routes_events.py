"""The route that tells what happens in a run."""

import asyncio

from incoming import NO_BUFFERING, principal_of
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from stepagent.api.events import EventsQuery, find_events, read_place, stream_events
from stepagent.api.query import read_query
from stepagent.api.streams import kept_alive
from stepagent.observe import identify


async def follow_run(request: Request) -> Response:
    """204 tells an EventSource that nothing will follow, so that it does not connect again."""
    place = read_place(request.headers.get("last-event-id"), read_query(request.query_params, EventsQuery))
    run = await asyncio.to_thread(find_events, request.path_params["run_id"], principal_of(request), place)
    if run is None:
        return Response(status_code=204)
    identify(run_id=run.run_id)
    return StreamingResponse(
        kept_alive(stream_events(run, place)), media_type="text/event-stream", headers=NO_BUFFERING
    )


ROUTES = [Route("/runs/{run_id}/events", follow_run, methods=["GET"])]
