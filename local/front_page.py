"""What a browser finds at the local stack's own address: how to use the API behind it."""

from starlette.requests import Request
from starlette.responses import PlainTextResponse

_PAGE = """StepAgent, on this machine.

  Base URL   http://127.0.0.1:{port}/v1   for any OpenAI client; `model` names an agent
  Key        none is needed here, any text will do; one of your own (`make api-key NAME=me`) is sent as
             Authorization: Bearer KEY

Below the base URL:

  GET  /models                  the agents
  POST /chat/completions        asks one, as OpenAI's chat completions
  POST /responses               asks one, as OpenAI's Responses API
  POST /runs                    begins a run and returns at once
  GET  /runs                    your runs, the newest first
  GET  /runs/{{run_id}}/events    what happens in a run, replayed and live
  GET  /interactions            questions that wait for you
  GET  /openapi.json            every route, with every field

Examples are in docs/api.md of the repository. `make chat` talks to an agent, `make down` stops the stack.
"""


async def front_page(request: Request) -> PlainTextResponse:
    """Plain text, which nothing in it can turn into a page with scripts."""
    _, port = request.scope["server"]
    return PlainTextResponse(_PAGE.format(port=port), headers={"X-Content-Type-Options": "nosniff"})
