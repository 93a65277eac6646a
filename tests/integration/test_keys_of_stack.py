"""`keys` against a stack: it is found by its name, and a key that is made there is admitted there."""

import httpx
import pytest

from local import keys as subject
from local.keys import KeysUnavailable, Terms, enter, make
from stepagent.runs import Principal
from stepagent.settings import settings
from tests.local_loop import LocalLoop, forget


@pytest.fixture(autouse=True)
def _restored(restored_environment: None, loop: LocalLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "_local_environment", lambda: loop.emulator.environment)
    monkeypatch.setenv("RECORD_TABLE", "")
    forget()


@pytest.mark.parametrize("stack", ["", "stepagent"])
def test_record_of_a_stack_is_found_by_its_name(loop: LocalLoop, stack: str) -> None:
    enter(stack)
    assert settings().record_table == loop.stack.record_table


def test_stack_that_is_not_there_is_named() -> None:
    with pytest.raises(KeysUnavailable, match="stack nowhere cannot be looked up"):
        enter("nowhere")


def test_key_that_is_made_has_a_place_in_the_stacks_usage_plan(loop: LocalLoop) -> None:
    plan_id = enter("")
    before = places(loop, plan_id)
    make(Terms(Principal("alice")), "")
    assert len(places(loop, plan_id)) == len(before) + 1


def places(loop: LocalLoop, plan_id: str) -> list[str]:
    found = loop.client("apigateway").get_usage_plan_keys(usagePlanId=plan_id)["items"]
    return [place["name"] for place in found]


def test_key_that_is_made_is_admitted_by_the_stack(loop: LocalLoop) -> None:
    made = make(Terms(Principal("alice")), "")
    headers = {"Authorization": f"Bearer {made.key}"}
    assert httpx.get(f"{loop.stack.api_url}/models", headers=headers, timeout=60, trust_env=False).status_code == 200
