"""What a browser finds at the addresses that the local stack prints."""

import asyncio
import re
import subprocess
import sys

import httpx
import pytest

from local import release
from local.front_door import create_app
from stepagent.api.openapi_routes import OPERATIONS
from tests.functions import ROOT

SECRET = "sk-local-secret"


def get(path: str, method: str = "GET", **headers: str) -> httpx.Response:
    async def send() -> httpx.Response:
        app = create_app("http://127.0.0.1:1", SECRET)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:8123") as client:
            return await client.request(method, path, headers=headers)

    return asyncio.run(send())


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/"])
def test_address_without_a_route_tells_how_to_use_the_api(path: str) -> None:
    reply = get(path)
    assert (reply.status_code, reply.headers["content-type"]) == (200, "text/plain; charset=utf-8")
    assert "http://127.0.0.1:8123/v1" in reply.text
    assert "Authorization: Bearer" in reply.text
    assert "docs/api.md" in reply.text


def test_page_names_routes_and_files_that_there_are() -> None:
    page = get("/").text
    named = re.findall(r"^ +(GET|POST) +(/\S+)", page, re.MULTILINE)
    assert len(named) > 4
    assert set(named) <= {(operation.method, operation.path) for operation in OPERATIONS}
    assert all((ROOT / file).is_file() for file in re.findall(r"docs/\S+\.(?:md|json)", page))


def test_page_keeps_the_stacks_key_to_itself() -> None:
    assert SECRET not in get("/").text


def test_page_is_text_whatever_a_browser_makes_of_it() -> None:
    reply = get("/", host="127.0.0.1:<script>")
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert "<script>" not in reply.text


def test_page_is_for_callers_of_this_machine_alone() -> None:
    assert get("/", host="evil.example").status_code == 403


@pytest.mark.parametrize(("method", "path"), [("POST", "/"), ("POST", "/v1"), ("GET", "/nothing")])
def test_anything_else_is_refused_in_the_shape_that_clients_read(method: str, path: str) -> None:
    reply = get(path, method)
    assert (reply.status_code, reply.json()["error"]["code"]) == (404, "not_found")


def test_front_door_starts_anew_when_any_module_of_its_own_has_changed() -> None:
    code = "import sys, local.front_door; print(*(name for name in sys.modules if name.startswith('local.')))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert {f"{name.removeprefix('local.')}.py" for name in done.stdout.split()} == set(release.DOOR_MODULES)
