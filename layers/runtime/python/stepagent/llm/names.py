"""Tool names: what providers accept, and which tool a model means by the name that it wrote."""

import hashlib
import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from stepagent.errors import ToolError

_LEGAL = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_ILLEGAL_RUN = re.compile(r"[^A-Za-z0-9_-]+")
_CONTROL_TOKEN = re.compile(r"<[|｜]")
_PREFIX = re.compile(r"(?:functions|default_api)[.:]")
_SEPARATORS = re.compile(r"[\s_.:/-]+")
_CLEAN_CHARS = 55  # of 64; an underscore and the hash take nine
_ECHO_CHARS = 100
_MAX_NAMED = 40  # tools that an error lists
_UNNAMED = "unnamed_tool"


def aliases(names: Sequence[str]) -> dict[str, str]:
    """Each tool's name on the wire: unique, legal with every provider, and the name itself where that is legal.

    An alias depends on its own name only, except where another tool has just that name already.
    """
    wire = {name: name for name in names if _LEGAL.fullmatch(name)}
    taken = set(wire)
    for name in sorted(set(names) - taken):
        alias = _alias(name, 0)
        attempt = 0
        while alias in taken:
            attempt += 1
            alias = _alias(name, attempt)
        taken.add(alias)
        wire[name] = alias
    return {name: wire[name] for name in names}


def resolve(name: str, tools: Sequence[str]) -> str:
    """The tool that a model means: by its name or alias, without what got stuck to it, at last however it is spelled.

    Raises:
        ToolError: no tool is meant, or more than one may be; the message lists what there is.
    """
    wire = aliases(tools)
    known = {alias: tool for tool, alias in wire.items()} | {tool: tool for tool in tools}
    for form in _forms(name):
        if form in known:
            return known[form]
    folded = _folded(_forms(name)[-1])
    meant = sorted({tool for spelling, tool in known.items() if folded and _folded(spelling) == folded})
    if len(meant) > 1:
        raise ToolError(f"{_echo(name)} may be any of {_listed(wire[tool] for tool in meant)}. Use one exact name.")
    if not meant:
        raise _unknown(name, list(wire.values()))
    return meant[0]


def legal(name: str) -> str:
    """A name that providers accept on replay, made from any that a model wrote; the same where it is legal already."""
    if _LEGAL.fullmatch(name):
        return name
    return _led(_cleaned(_forms(name)[-1]))[:64] or _UNNAMED


def _alias(name: str, attempt: int) -> str:
    seed = name if attempt == 0 else f"{name}\0{attempt}"
    digest = hashlib.sha256(seed.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{_led(_cleaned(name))[:_CLEAN_CHARS] or 'tool'}_{digest}"


def _cleaned(name: str) -> str:
    return _ILLEGAL_RUN.sub("_", name).strip("_-")


def _led(name: str) -> str:
    """The name with a lead that is legal."""
    return f"_{name}" if name[:1].isdigit() else name


def _forms(name: str) -> list[str]:
    """The name as it was written, trimmed, cut before a control token, and without a namespace."""
    trimmed = name.strip()
    cut = _CONTROL_TOKEN.split(trimmed, maxsplit=1)[0].strip()
    return [name, trimmed, cut, _PREFIX.sub("", cut, count=1) if _PREFIX.match(cut) else cut]


def _folded(name: str) -> str:
    return _SEPARATORS.sub("", name.casefold())


def _unknown(name: str, offered: list[str]) -> ToolError:
    spelled = {tool.casefold(): tool for tool in offered}
    near = get_close_matches(name[:_ECHO_CHARS].casefold(), spelled, n=3)
    hint = f" Perhaps you mean {_listed(spelled[fold] for fold in near)}." if near else ""
    return ToolError(f"There is no tool {_echo(name)}. The tools are: {_listed(offered) or 'none'}.{hint}")


def _listed(names: Iterable[str]) -> str:
    listed = list(names)
    more = len(listed) - _MAX_NAMED
    return ", ".join(listed[:_MAX_NAMED]) + (f" and {more} more" if more > 0 else "")


def _echo(name: str) -> str:
    return repr(name if len(name) <= _ECHO_CHARS else f"{name[:_ECHO_CHARS]}…")
