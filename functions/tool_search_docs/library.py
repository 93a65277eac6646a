"""The documents that are searched, indexed once a process."""

from functools import cache
from pathlib import Path

from passages import Passage, cut

from stepagent.settings import settings
from stepagent.store.documents import Document, read_documents
from stepagent.tools.search import Index, Text

BUNDLED = Path(__file__).parent / "documents"


def find(query: str, limit: int) -> list[Passage]:
    """The passages that have words of the query, the best first."""
    passages, index = _library()
    return [passages[position] for position in index.search(query, limit)]


@cache
def _library() -> tuple[list[Passage], Index]:
    passages = [passage for document in _documents() for passage in cut(document.name, document.text)]
    return passages, Index(Text(f"{passage.file} {passage.heading}", passage.text) for passage in passages)


def _documents() -> list[Document]:
    """Those of the bucket where the deployment names a prefix, else those that came with the function."""
    if prefix := settings().documents_prefix:
        return read_documents(prefix)
    return [Document(path.name, path.read_text("utf-8")) for path in sorted(BUNDLED.glob("*.md"))]
