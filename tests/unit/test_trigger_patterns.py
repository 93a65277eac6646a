"""Event patterns: what matches, as EventBridge documents it, and what is refused."""

from datetime import date
from typing import Any

import pytest

from stepagent.triggers.patterns import check_pattern, matches

EVENT: dict[str, Any] = {
    "source": "shop",
    "detail": {
        "key": "in/a.PDF",
        "size": 7,
        "paid": True,
        "note": None,
        "tags": ["new", "big"],
        "items": [{"n": 1}],
        "none": [],
    },
}

MATCHING: list[Any] = [
    {"source": ["shop"]},
    {"source": ["other", "shop"]},
    {"detail": {"size": [7]}},
    {"detail": {"size": [7.0]}},
    {"detail": {"paid": [True]}},
    {"detail": {"note": [None]}},
    {"detail": {"tags": ["big"]}},
    {"detail": {"items": {"n": [1]}}},
    {"detail": {"key": [{"prefix": "in/"}]}},
    {"detail": {"key": [{"suffix": ".PDF"}]}},
    {"detail": {"key": [{"equals-ignore-case": "IN/A.pdf"}]}},
    {"detail": {"key": [{"anything-but": "in/b.pdf"}]}},
    {"detail": {"key": [{"anything-but": ["x", "y"]}]}},
    {"detail": {"size": [{"numeric": [">", 0, "<=", 7]}]}},
    {"detail": {"size": [{"numeric": ["=", 7]}]}},
    {"detail": {"size": [{"exists": True}]}},
    {"detail": {"note": [{"exists": True}]}},
    {"detail": {"missing": [{"exists": False}]}},
    {"detail": {"missing": {"inner": [{"exists": False}]}}},
    {"detail": {"key": {"inner": [{"exists": False}]}}},
    {"detail": {"none": {"inner": [{"exists": False}]}}},
    {"detail": {"items": [{"exists": False}]}},
    {"detail": {"none": [{"exists": False}]}},
    {"detail": {"key": [{"prefix": "out/"}, {"suffix": ".PDF"}]}},
]
OTHER: list[Any] = [
    {"source": ["shops"]},
    {"source": ["shop"], "detail": {"size": [8]}},
    {"detail": {"paid": [1]}},
    {"detail": {"size": ["7"]}},
    {"detail": {"size": [True]}},
    {"detail": {"tags": ["old"]}},
    {"detail": {"items": {"n": [2]}}},
    {"detail": {"key": [{"prefix": "out/"}]}},
    {"detail": {"size": [{"prefix": "7"}]}},
    {"detail": {"key": [{"suffix": ".pdf"}]}},
    {"detail": {"key": [{"anything-but": "in/a.PDF"}]}},
    {"detail": {"missing": [{"anything-but": "x"}]}},
    {"detail": {"size": [{"numeric": [">", 7]}]}},
    {"detail": {"key": [{"numeric": [">", 7]}]}},
    {"detail": {"paid": [{"numeric": ["=", 1]}]}},
    {"detail": {"missing": [{"exists": True}]}},
    {"detail": {"items": [{"exists": True}]}},
    {"detail": {"none": [{"exists": True}]}},
    {"detail": [{"exists": True}]},
    {"detail": {"items": {"n": [{"exists": False}]}}},
    {"detail": {"missing": {"inner": [{"exists": True}]}}},
    {"detail": {"size": [{"exists": False}]}},
    {"detail": {"missing": [None]}},
    {"source": {"name": ["shop"]}},
]


@pytest.mark.parametrize("pattern", MATCHING, ids=str)
def test_pattern_matches_when_each_field_has_a_listed_value(pattern: Any) -> None:
    check_pattern(pattern)
    assert matches(pattern, EVENT)


@pytest.mark.parametrize("pattern", OTHER, ids=str)
def test_pattern_does_not_match_when_a_field_has_none(pattern: Any) -> None:
    check_pattern(pattern)
    assert not matches(pattern, EVENT)


WRONG: list[tuple[Any, str]] = [
    ({}, "match must name at least one field"),
    ({"source": "shop"}, "match.source must name"),
    ({"source": []}, "match.source lists no value"),
    ({"detail": {"key": ["a", ["b"]]}}, "match.detail.key lists a list"),
    ({"detail": {True: ["a"]}}, "match.detail has the name True"),  # YAML takes the name on for that
    ({"detail": {"day": [date(2030, 1, 1)]}}, "match.detail.day lists a date"),
    ({"detail": {"day": [{"anything-but": [date(2030, 1, 1)]}]}}, "match.detail.day.anything-but has a value"),
    ({"detail": {"key": [{"prefx": "a"}]}}, "match.detail.key has 'prefx'"),
    ({"detail": {"key": [{"wildcard": "a*"}]}}, "'wildcard'"),
    ({"detail": {"key": [{}]}}, "match.detail.key has ''"),
    ({"detail": {"key": [{"prefix": "a", "suffix": "b"}]}}, "one operator at a time"),
    ({"detail": {"key": [{"prefix": 1}]}}, "match.detail.key.prefix has a value"),
    ({"detail": {"key": [{"prefix": {"equals-ignore-case": "a"}}]}}, "match.detail.key.prefix has a value"),
    ({"detail": {"key": [{"anything-but": {"prefix": "a"}}]}}, "match.detail.key.anything-but has a value"),
    ({"detail": {"key": [{"anything-but": []}]}}, "match.detail.key.anything-but has a value"),
    ({"detail": {"key": [{"exists": "yes"}]}}, "match.detail.key.exists has a value"),
    ({"detail": {"size": [{"numeric": [">"]}]}}, "match.detail.size.numeric has a value"),
    ({"detail": {"size": [{"numeric": ["~", 1]}]}}, "match.detail.size.numeric has a value"),
    ({"detail": {"size": [{"numeric": [">", "1"]}]}}, "match.detail.size.numeric has a value"),
]


@pytest.mark.parametrize(("pattern", "why"), WRONG, ids=str)
def test_pattern_is_refused_when_it_is_none_of_this_language(pattern: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why.replace(".", r"\.").replace("*", r"\*")):
        check_pattern(pattern)
