"""Ids of runs and calls: written from where a thing stands, and read back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepagent.api.beginning import session_key_of
from stepagent.runs import CallKey, Principal, RunKey, SessionKey

NUMBERS = st.integers(0, 10**9)


@given(st.text("abcdefghijklmnopqrstuvwxyz234567", min_size=1, max_size=32), NUMBERS)
def test_run_id_leads_back_to_its_key_whatever_the_key(session: str, ordinal: int) -> None:
    key = RunKey(SessionKey(session), ordinal)
    assert RunKey.parse(key.run_id) == key


@given(NUMBERS, NUMBERS, NUMBERS)
def test_call_id_leads_back_to_its_key_whatever_the_key(ordinal: int, turn: int, position: int) -> None:
    key = CallKey(ordinal, turn, position)
    assert CallKey.parse(key.call_id) == key


NO_RUN_IDS = ["", "run", "run_a", "run_a_", "run__1", "run_a_b", "run_a_1_2", "chat_a_1", "run_a-b_1", "a" * 9999]
NO_RUN_IDS += [
    "run_a_-1",
    "run_a_01",
    "run_a_\u00b2",
    "run_a_\u0661",
    "run_a_1 ",
    " run_a_1",
    "run_a_1\n",
    "run_\u00e4_1",
]
NO_RUN_IDS += ["run_A_1", "run_a#_1", f"run_{'a' * 65}_1", "run_a_" + "9" * 5000]
NO_CALL_IDS = ["", "call", "call_1_2", "call_1_2_3_4", "run_1_2_3", "call_a_2_3", "call_1_2_-3", "call_1_2_+3"]
NO_CALL_IDS += ["call_1_2_03", "call_1_2_ 3", "call_1_2_\u0663"]


@pytest.mark.parametrize("text", NO_RUN_IDS)
def test_text_is_no_run_id_when_no_run_is_written_so(text: str) -> None:
    with pytest.raises(ValueError, match="not a run id"):
        RunKey.parse(text)


@pytest.mark.parametrize("text", NO_CALL_IDS)
def test_text_is_no_call_id_when_no_call_is_written_so(text: str) -> None:
    with pytest.raises(ValueError, match="not a call id"):
        CallKey.parse(text)


def test_execution_can_bear_the_run_id_when_the_session_has_a_million_runs() -> None:
    run_id = RunKey(session_key_of(Principal("ann"), "s" * 128), 1_000_000).run_id
    assert len(run_id) <= 80
    assert run_id.replace("_", "").isalnum()


@pytest.mark.parametrize(
    ("one", "other"), [(("ann", "s"), ("bob", "s")), (("ann", "s"), ("ann", "t")), (("a", "nn"), ("an", "n"))]
)
def test_sessions_are_apart_when_principal_or_name_differ(one: tuple[str, str], other: tuple[str, str]) -> None:
    assert session_key_of(Principal(one[0]), one[1]) != session_key_of(Principal(other[0]), other[1])


def test_session_stays_the_same_when_it_is_named_again() -> None:
    assert session_key_of(Principal("ann"), "s") == session_key_of(Principal("ann"), "s")
