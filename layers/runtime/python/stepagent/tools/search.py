"""Search in texts. Ranking (BM25) is SQLite's, which comes with Python; scripts without spaces are split here."""

import re
import sqlite3
import unicodedata
from collections.abc import Callable, Iterable
from typing import NamedTuple

_TITLE_WEIGHT = 4.0
_TABLE = """CREATE VIRTUAL TABLE texts USING fts5(title, body, tokenize="porter unicode61 categories 'L* M* N* Co'")"""
_SEARCH = "SELECT rowid FROM texts WHERE texts MATCH ? ORDER BY bm25(texts, ?, 1.0), rowid LIMIT ?"
# Chinese, Japanese and Korean: written without spaces, or with words that change at their ends.
_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]+")


class Text(NamedTuple):
    """What can be found. A word in the title counts as much as four in the body."""

    title: str
    body: str


class Index:
    """Texts to search. English words match in their other forms, unspaced scripts by characters and pairs of them."""

    def __init__(self, texts: Iterable[Text]) -> None:
        self._database = sqlite3.connect(":memory:", check_same_thread=False)
        self._database.execute(_TABLE)
        rows = ((number, _to_index(text.title), _to_index(text.body)) for number, text in enumerate(texts))
        self._database.executemany("INSERT INTO texts (rowid, title, body) VALUES (?, ?, ?)", rows)

    def __del__(self) -> None:
        self._database.close()

    def search(self, query: str, limit: int) -> list[int]:
        """The positions of the texts that have any of the query's words, the best first."""
        words = dict.fromkeys(re.findall(r'[^\s"]+', _to_ask(query)))
        if not words:
            return []
        expression = " OR ".join(f'"{word}"' for word in words)
        return [number for (number,) in self._database.execute(_SEARCH, (expression, _TITLE_WEIGHT, limit))]


def _to_index(text: str) -> str:
    return _spaced(text, lambda run: [*run, *_pairs(run)])


def _to_ask(query: str) -> str:
    """A pair says more than its characters, which are looked for only where they stand alone."""
    return _spaced(query, lambda run: _pairs(run) or [run])


def _spaced(text: str, split: Callable[[str], list[str]]) -> str:
    written = unicodedata.normalize("NFKC", text).replace("\0", " ")
    return _UNSPACED.sub(lambda run: f" {' '.join(split(run[0]))} ", written)


def _pairs(run: str) -> list[str]:
    return [run[start : start + 2] for start in range(len(run) - 1)]
