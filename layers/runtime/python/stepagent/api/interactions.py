"""What the route that lists questions does: those that wait for whoever asks, page by page."""

from typing import Any, Literal

from pydantic import Field

from stepagent.announcing import view
from stepagent.answering import MAX_LISTED, list_interactions
from stepagent.api.query import Query
from stepagent.runs import Principal
from stepagent.store.questions import list_pending


class InteractionsQuery(Query):
    """Which questions to list. `after` is the id behind which the list goes on, which is `next` of the page before."""

    status: Literal["pending"] = "pending"
    limit: int = Field(MAX_LISTED, ge=1, le=MAX_LISTED)
    after: str | None = None


def show_interactions(query: InteractionsQuery, principal: Principal) -> dict[str, Any]:
    """Questions that wait for this principal, in the order in which they were asked.

    A page may have fewer than `limit` and yet not be the last one: some megabytes are the most that it has.

    Raises:
        NotFound: `after` is no question of this principal.
    """
    page = list_interactions(principal, query.status, query.after, query.limit)
    data = [view(interaction) for interaction in page]
    more = bool(page) and any(list_pending(principal, page[-1]))  # reads the next one alone
    return {"object": "list", "data": data, "has_more": more, "next": page[-1].interaction_id if more else None}
