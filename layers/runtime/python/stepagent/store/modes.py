"""Calling modes that a model's server refused, kept for a day so that nobody has to find out again meanwhile."""

import time
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, get_args

from stepagent.clock import now
from stepagent.llm.reply import ModeName
from stepagent.store.items import model_key
from stepagent.store.table import ANYHOW, apply, change, get

_KEPT = timedelta(days=1)  # a server may learn
_FRESH_S = 300  # another process may have found out meanwhile

_known: dict[str, tuple[float, frozenset[ModeName]]] = {}


def refused_modes(model: str) -> frozenset[ModeName]:
    """The modes refused of late, as known at most five minutes ago. `model` names server and model together."""
    read_at, modes = _known.get(model, (0.0, frozenset()))
    if not read_at or time.monotonic() - read_at > _FRESH_S:
        modes = _remember(model, get(model_key(model)) or {})
    return modes


def refuse_mode(model: str, mode: ModeName) -> None:
    """Notes that the server refused a mode."""
    item = apply(change(model_key(model), f"SET {mode} = :now", ANYHOW, {":now": now().isoformat()}))
    _remember(model, item)


def _remember(model: str, item: Mapping[str, Any]) -> frozenset[ModeName]:
    oldest = now() - _KEPT
    names: tuple[ModeName, ...] = get_args(ModeName)
    modes = frozenset(name for name in names if name in item and datetime.fromisoformat(item[name]) > oldest)
    _known[model] = time.monotonic(), modes
    return modes
