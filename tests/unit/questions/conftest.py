"""What all tests of questions to people stand on: tables in memory, a loop that the test plays, and its clock."""

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from tests.questions_in_record import Loop, install, make_later
from tests.tables import tables_in_memory


@pytest.fixture(scope="module", autouse=True)
def _tables() -> Iterator[None]:
    with tables_in_memory():
        yield


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Loop:
    return install(monkeypatch)


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Makes it so many seconds later."""
    return partial(make_later, monkeypatch)
