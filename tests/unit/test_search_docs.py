"""The tool `search_docs`: how documents are cut, and what is found in those that came with it."""

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepagent.store.documents import Document
from stepagent.tools import ToolError
from tests.functions import load

passages = load("tool_search_docs", "passages")
library = load("tool_search_docs", "library")
handler = load("tool_search_docs", "app").handler

MARKDOWN = """Before.

# Top

Above.

## First ##
One.

Two.

```
# no heading
```

### Deep

Three.

## Second

# Other
Four.
"""


def cut(markdown: str) -> list[tuple[str, str]]:
    return [(passage.heading, passage.text) for passage in passages.cut("a.md", markdown)]


def test_passages_stand_under_all_their_headings() -> None:
    assert cut(MARKDOWN) == [
        ("", "Before."),
        ("Top", "Above."),
        ("Top > First", "One.\n\nTwo.\n\n```\n# no heading\n```"),
        ("Top > First > Deep", "Three."),
        ("Other", "Four."),
    ]


@pytest.mark.parametrize("markdown", ["", "\n\n", "# Only a heading\n"])
def test_nothing_is_a_passage_when_there_is_no_text(markdown: str) -> None:
    assert cut(markdown) == []


def test_long_section_is_cut_between_paragraphs() -> None:
    paragraphs = [f"{number} " + "x" * 600 for number in range(5)]
    assert [text for _, text in cut("\n\n".join(paragraphs))] == [
        "\n\n".join(paragraphs[:2]),
        "\n\n".join(paragraphs[2:4]),
        paragraphs[4],
    ]


@given(st.text(alphabet="ab #`\n", max_size=4_000))
def test_no_letter_is_lost_and_no_passage_is_long(text: str) -> None:
    found = cut(text)
    assert all(0 < len(part) <= passages.MAX_CHARS for _, part in found)
    bare = re.sub(r"(?m)^#{1,6}\s.*$", "", text) if "`" not in text else ""
    assert sum(part.count("a") for _, part in found) >= bare.count("a")


@pytest.mark.parametrize(
    ("query", "file"),
    [
        ("How do I make a new tool?", "tools.md"),
        ("ToolError", "tools.md"),
        ("idempotency key", "tools.md"),
        ("what happens at the limit of turns", "overview.md"),
        ("calling modes", "models.md"),
        ("deploy to AWS", "deploying.md"),
        ("ask a person a question", "people.md"),
        ("到达上限后会怎样？", "overview.zh.md"),
        ("有哪几种调用模式", "overview.zh.md"),
        ("怎么编写工具", "overview.zh.md"),
    ],
)
def test_question_finds_its_document(query: str, file: str) -> None:
    assert handler.run({"query": query, "limit": 1})[0].file == file


def test_passage_comes_with_its_heading() -> None:
    [passage] = handler.run({"query": "busy provider", "limit": 1})
    assert passage.heading == "Models > A busy provider"
    assert "nobody pays" in passage.text


def test_model_reads_to_try_other_words_when_nothing_is_found() -> None:
    with pytest.raises(ToolError, match="Try other words"):
        handler.run({"query": "xylophone"})


def test_documents_of_the_bucket_are_searched_when_the_deployment_names_a_prefix(
    monkeypatch: pytest.MonkeyPatch, set_environment: Callable[..., None]
) -> None:
    set_environment(DOCUMENTS_PREFIX="docs/")
    monkeypatch.setattr(library, "read_documents", lambda prefix: [Document("ours.md", f"# Prices\nIn {prefix}")])
    library._library.cache_clear()
    found = library.find("price", 1)
    library._library.cache_clear()
    assert found == [("ours.md", "Prices", "In docs/")]


def test_documents_are_indexed_once_a_process() -> None:
    assert library._library() is library._library()
