"""Rules that are told of this stack's own runs. What they start ends, too, and must not lead back to them for ever."""

from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any

from stepagent.notifying import SOURCE
from stepagent.triggers.patterns import Pattern, matches


def agents_heard(pattern: Pattern) -> frozenset[str]:
    """The agents whose runs this pattern is told of; none where it takes no event of our own.

    Raises:
        ValueError: it takes events of our own without saying so, or those of any agent.
    """
    sources = pattern.get("source")
    if not isinstance(sources, list):
        raise ValueError("match.source is missing: a rule lists whose events it takes")
    if wrong := [source for source in sources if not isinstance(source, str | Mapping)]:
        raise ValueError(f"match.source lists {wrong[0]!r}, which is no text: put it into quotes")
    if not matches({"source": sources}, {"source": SOURCE}):
        return frozenset()
    if SOURCE not in sources:
        raise ValueError(f"match.source takes {SOURCE!r}, too, whose runs it would follow: list sources by their names")
    detail = pattern.get("detail")
    agents: Any = detail.get("agent") if isinstance(detail, Mapping) else None
    if not isinstance(agents, list) or not all(isinstance(agent, str) for agent in agents):
        raise ValueError(f"match.detail.agent must list agents by name, since the source is {SOURCE!r}")
    return frozenset(agents)


def cycle_of(starts: Iterable[tuple[Pattern, str]]) -> list[str]:
    """The agents whose runs would start each other for ever, the first one again at the end; none where all is well.

    Args:
        starts: the pattern of each rule, and the agent that it starts.
    """
    graph: TopologicalSorter[str] = TopologicalSorter()
    for pattern, agent in starts:
        graph.add(agent, *agents_heard(pattern))
    try:
        graph.prepare()
    except CycleError as error:
        found: list[str] = error.args[1]
        return found
    return []
