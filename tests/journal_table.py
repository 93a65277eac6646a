"""The journal's table in memory, seen from outside, and asked by several threads."""

import threading
from collections.abc import Callable
from typing import Any

from stepagent.clock import now
from stepagent.settings import settings
from stepagent.store import journal as store
from stepagent.store.clients import dynamodb
from stepagent.store.journal import Entry, Event, EventType
from tests.builders import RUN_ID


class JournalTable:
    """Stands for the client of tables in memory, as far as the journal uses it.

    `before_append` is called before each append, and may raise in its place.
    """

    def __init__(self) -> None:
        self.client: Any = dynamodb()
        self.exceptions = self.client.exceptions
        self.before_append: Callable[[], None] = lambda: None
        self.appends = 0
        self._lock = threading.Lock()  # the emulator answers one request after the other

    def update_item(self, **request: Any) -> Any:
        self.before_append()
        with self._lock:
            self.appends += 1
            return self.client.update_item(**request)

    def query(self, **request: Any) -> Any:
        with self._lock:
            return self.client.query(**request)

    def get_paginator(self, operation: str) -> Any:
        return self.client.get_paginator(operation)

    @property
    def pages(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.client.scan(TableName=settings().journal_table)["Items"]
        return found

    @property
    def events(self) -> list[Event]:
        with self._lock:
            return store.read_events(RUN_ID, 0)

    def types(self) -> list[str]:
        return [event.type for event in self.events]

    def said(self, kind: str = "text") -> list[str]:
        return [event.data[kind] for event in self.events if kind in event.data and event.type == "message.delta"]

    def write(self, *types: EventType) -> None:
        """Appends as another writer would."""
        for number, type_ in enumerate(types):
            entries = [Entry(f"other-{self.appends}-{number}", type_, now(), {})]
            position = store.find_position(RUN_ID)
            assert store.append(RUN_ID, position.page, entries) is None
