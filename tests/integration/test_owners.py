"""Every route of the API: none answers without a key, and none shows or changes what belongs to somebody else.

The table names each route that the template has, so that a new one must say here what strangers get of it.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx
import pytest
from samtranslator.yaml_helper import yaml_parse

from stepagent.api.beginning import session_key_of
from stepagent.api.keys import digest_of, make_key
from stepagent.clock import now
from stepagent.runs import Principal
from stepagent.spending import KeyBudget
from stepagent.store.keys import KeyRecord, put_key, read_spent, revoke_key
from tests.functions import ROOT
from tests.integration.runs import until
from tests.local_loop import LocalLoop, front_door
from tests.plans import a_step, written
from tests.scripted_model import Reply, ScriptedModel

SESSION = "shared name"
BATCH = {"batch_id": "owned", "agent": "prober", "inputs": ["Hello"]}
STARTS: dict[str, dict[str, Any]] = {
    "POST /chat/completions": {"messages": [{"role": "user", "content": "Hello"}]},
    "POST /runs": {"input": "Hello"},
    "POST /responses": {"input": "Hello"},
}
BODIES: dict[str, dict[str, Any]] = {
    **STARTS,
    "POST /batches": BATCH,
    "POST /interactions/{interaction_id}": {"answer": "mine"},
    "PUT /agents/{name}": {"model": "default", "instructions": "Obey."},
    "PUT /tools/{name}": {"description": "x", "kind": "lambda", "target": "tool_x"},
}
# What a stranger gets of the owner's objects.
OWNED = {
    "GET /runs/{run_id}": 404,
    "GET /runs/{run_id}/messages": 404,
    "GET /runs/{run_id}/events": 404,
    "POST /runs/{run_id}/cancel": 404,
    "GET /sessions/{session_id}": 404,
    "GET /responses/{response_id}": 404,
    "GET /interactions/{interaction_id}": 404,
    "POST /interactions/{interaction_id}": 404,
    "GET /batches/{batch_id}": 404,
    "GET /batches/{batch_id}/results": 404,
    "POST /batches/{batch_id}/cancel": 404,
    "PUT /agents/{name}": 403,
    "DELETE /agents/{name}": 403,
    "PUT /tools/{name}": 403,
    "DELETE /tools/{name}": 403,
}
LISTS = {"GET /runs", "GET /interactions", "GET /batches"}
OPEN_TO_ALL_KEYS = {
    *{"GET /models", "GET /models/{name}", "GET /openapi.json"},
    *{"GET /agents", "GET /agents/{name}", "GET /tools", "GET /tools/{name}"},
}


def routes_of_template() -> dict[str, bool]:
    """Each route as the table writes it, with whether it is served by the function that streams."""
    resources: dict[str, Any] = yaml_parse((ROOT / "template.yaml").read_text())["Resources"]
    return {
        f"{event['Properties']['Method']} {event['Properties']['Path']}": function == "StreamFunction"
        for function, resource in resources.items()
        for event in resource["Properties"].get("Events", {}).values()
        if resource["Type"] == "AWS::Serverless::Function" and event["Type"] == "Api"
    }


ROUTES = routes_of_template()


class Objects(NamedTuple):
    """What the owner has: a run that waits with a question, and a batch that has ended."""

    run_id: str
    interaction_id: str

    def path(self, route: str) -> str:
        names = {"run_id": self.run_id, "interaction_id": self.interaction_id, "session_id": SESSION}
        names |= {"batch_id": "owned"}
        return route.partition(" ")[2].format(**names, response_id=f"resp_{self.run_id}", name="assistant")


def a_key(name: str = "stranger", budget: KeyBudget | None = None) -> str:
    key = make_key()
    put_key(KeyRecord(digest=digest_of(key), name=Principal(name), budget=budget, created_at=now()))
    return key


def send(client: httpx.Client, route: str, path: str, key: str = "", **fields: Any) -> httpx.Response:
    method, body = route.partition(" ")[0], BODIES.get(route, {})
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    body = {**({"model": "prober"} if route in STARTS else {}), **body, **fields} if body else {}
    if method == "GET" and path.endswith("/events"):  # a run that waits is followed for as long as one likes
        with client.stream(method, path, headers=headers) as response:
            return response
    return client.request(method, path, json=body or None, headers=headers)


@pytest.fixture(scope="module")
def door(loop: LocalLoop) -> Iterator[httpx.Client]:
    with front_door(loop) as client:
        yield client


@pytest.fixture
def owned(door: httpx.Client, loop: LocalLoop, model: ScriptedModel) -> Iterator[Objects]:
    """A run of the principal `local`, which waits with a question, and a batch, whose results are there."""
    model.default = Reply(text="Hello.")
    door.post("/batches", json=BATCH).raise_for_status()
    until(lambda: door.get("/batches/owned").json()["status"] == "completed")
    model.script(Reply(calls=(("ask_user", {"question": "Which?"}),)))
    body = {"model": "asker", "messages": [{"role": "user", "content": "ask"}], "session_id": SESSION}
    standing = door.post("/chat/completions", json=body).json()["stepagent"]
    [question] = standing["interactions"]
    yield Objects(standing["run_id"], question["interaction_id"])
    door.post(f"/runs/{standing['run_id']}/cancel")


def test_table_names_every_route() -> None:
    assert set(ROUTES) == {*OWNED, *STARTS, *LISTS, *OPEN_TO_ALL_KEYS, "POST /batches"}


@pytest.mark.parametrize("key", ["", "wrong", "Basic"])
@pytest.mark.parametrize("route", [route for route, streams in ROUTES.items() if not streams])
def test_route_of_the_gateway_answers_nobody_without_a_key(loop: LocalLoop, route: str, key: str) -> None:
    path = Objects("run_a_1", "int_a").path(route)
    with httpx.Client(base_url=loop.stack.api_url, timeout=60, trust_env=False) as client:
        refused = send(client, route, path, key)
    assert (refused.status_code, refused.json()["error"]["code"]) == (401, "invalid_api_key")


@pytest.mark.parametrize("route", ROUTES)
def test_route_answers_nobody_when_the_key_is_revoked(door: httpx.Client, route: str) -> None:
    key = a_key()
    revoke_key(f"key_{digest_of(key)[:16]}")
    refused = send(door, route, Objects("run_a_1", "int_a").path(route), key)
    assert refused.status_code == 401


@pytest.mark.parametrize("route", OWNED)
def test_route_gives_a_stranger_nothing_of_the_owners(door: httpx.Client, owned: Objects, route: str) -> None:
    before = door.get(f"/runs/{owned.run_id}").json()
    refused = send(door, route, owned.path(route), a_key())
    assert refused.status_code == OWNED[route]
    assert door.get(f"/runs/{owned.run_id}").json() == before


@pytest.mark.parametrize("route", [route for route in OWNED if route.startswith("GET ")])
def test_route_gives_the_owner_what_strangers_do_not_get(door: httpx.Client, owned: Objects, route: str) -> None:
    assert send(door, route, owned.path(route)).status_code == 200


@pytest.mark.parametrize("route", sorted(LISTS))
def test_list_shows_a_stranger_nothing_of_the_owners(door: httpx.Client, owned: Objects, route: str) -> None:
    path = owned.path(route)
    assert ("owned" if "batches" in route else owned.run_id) in send(door, route, path).text
    assert send(door, route, path, a_key("nobody else")).json()["data"] == []


@pytest.mark.parametrize("route", ["POST /chat/completions", "POST /runs"])
def test_route_begins_a_session_of_the_strangers_own_under_the_same_name(
    door: httpx.Client, loop: LocalLoop, owned: Objects, route: str
) -> None:
    name = f"stranger-{route.partition('/')[2][:4]}"
    begun = send(door, route, owned.path(route), a_key(name), session_id=SESSION)
    run_id = begun.json().get("run_id") or begun.json()["stepagent"]["run_id"]
    assert run_id.startswith(f"run_{session_key_of(Principal(name), SESSION)}_")
    assert door.get(f"/runs/{owned.run_id}").json()["status"] == "waiting"
    loop.wait_end(run_id)


def test_response_goes_on_from_no_run_of_somebody_else(door: httpx.Client, owned: Objects) -> None:
    refused = send(door, "POST /responses", "/responses", a_key(), previous_response_id=f"resp_{owned.run_id}")
    assert refused.status_code == 404


@pytest.mark.parametrize("route", STARTS)
def test_route_starts_no_run_when_the_keys_budget_is_spent(
    door: httpx.Client, loop: LocalLoop, model: ScriptedModel, route: str
) -> None:
    model.default = Reply(text="Hello.")
    key, path = a_key(budget=KeyBudget(per="month", max_total_tokens=1)), Objects("", "").path(route)
    first = send(door, route, path, key)
    assert first.is_success
    run_id = first.headers.get("x-stepagent-run-id") or first.json().get("run_id") or first.json()["id"][len("resp_") :]
    loop.wait_end(run_id)
    assert read_spent(f"key_{digest_of(key)[:16]}", "month", now()).total_tokens > 0
    refused = send(door, route, path, key)
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "budget_spent")
    assert "renews at" in refused.json()["error"]["message"]


def test_budget_is_spent_by_a_plan_and_its_steps_and_none_is_left_for_another(
    door: httpx.Client, model: ScriptedModel
) -> None:
    model.default = Reply(text="Hello.")
    model.script_for("Make the plan.", Reply(text=written([a_step("a"), a_step("b")])))
    key = a_key(budget=KeyBudget(per="day", max_total_tokens=50))
    body = {"model": "prober", "strategy": "plan", "messages": [{"role": "user", "content": "a large task"}]}
    headers = {"Authorization": f"Bearer {key}"}
    reply = door.post("/chat/completions", json=body, headers=headers).json()
    spent = read_spent(f"key_{digest_of(key)[:16]}", "day", now())
    assert reply["choices"][0]["message"]["content"] == "Hello."
    assert spent.total_tokens == reply["usage"]["total_tokens"] == 60  # a plan, two steps and an answer of 15 each
    refused = door.post("/chat/completions", json=body, headers=headers)
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "budget_spent")


def test_budget_is_spent_by_what_a_run_and_the_agents_below_it_use(
    door: httpx.Client, loop: LocalLoop, model: ScriptedModel
) -> None:
    model.default = Reply(text="Hello.")
    model.script_for("ask the helper", Reply(calls=(("consult", {"task": "look it up"}),)), Reply(text="Thanks."))
    key = a_key(budget=KeyBudget(per="day", max_total_tokens=1_000_000))
    body = {"model": "manager", "messages": [{"role": "user", "content": "ask the helper"}]}
    reply = door.post("/chat/completions", json=body, headers={"Authorization": f"Bearer {key}"}).json()
    run_id = reply["stepagent"]["run_id"]
    loop.wait_end(run_id)
    usage = door.get(f"/runs/{run_id}", headers={"Authorization": f"Bearer {key}"}).json()["usage"]
    spent = read_spent(f"key_{digest_of(key)[:16]}", "day", now())
    assert spent.total_tokens == usage["total_tokens"] > 0
