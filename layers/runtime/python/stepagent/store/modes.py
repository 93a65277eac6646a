"""Calling modes that a model's server refused, kept so that nobody has to find out again."""

import time
from collections.abc import Iterable

from stepagent.llm.reply import ModeName
from stepagent.store.items import Item, marshal
from stepagent.store.table import apply, change, get

_FRESH_S = 300  # another process may have found out meanwhile

_known: dict[str, tuple[float, frozenset[ModeName]]] = {}


def refused_modes(model: str) -> frozenset[ModeName]:
    """The modes refused so far, at most five minutes old. `model` names server and model together."""
    read_at, modes = _known.get(model, (0.0, frozenset()))
    if time.monotonic() - read_at > _FRESH_S or not read_at:
        item = get(_key(model)) or {}
        modes = _remember(model, item.get("refused", ()))
    return modes


def refuse_mode(model: str, mode: ModeName) -> None:
    """Notes that the server refused a mode."""
    always = "attribute_not_exists(pk) OR attribute_exists(pk)"
    item = apply(change(_key(model), "ADD refused :mode", always, {":mode": {mode}}))
    _remember(model, item["refused"])


def _remember(model: str, modes: Iterable[ModeName]) -> frozenset[ModeName]:
    _known[model] = time.monotonic(), frozenset(modes)
    return _known[model][1]


def _key(model: str) -> Item:
    return marshal({"pk": f"MODEL#{model}", "sk": "MODEL"})
