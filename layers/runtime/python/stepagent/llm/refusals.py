"""A provider's refusal, read: which of our errors it is, and how long to wait."""

import re
import time
from collections.abc import Callable, Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

from stepagent.errors import (
    ModelBusy,
    ModelContextExceeded,
    ModelError,
    ModelFiltered,
    ModelKeyRefused,
    ModelLacksTools,
    ModelQuotaSpent,
    ModelRequestRejected,
)
from stepagent.llm.fragments import mended

_WORDS_CHARS = 300
_READ_CHARS = 4_000
_TRANSIENT = frozenset({408, 409, 425, 429})
_SHORTLY = (
    r"(?:retry|try again) (?:in|after) (?:(?P<minutes>\d{1,4})m)?(?P<number>\d{1,9}(?:\.\d{1,9})?) ?(?P<unit>ms|s)"
)


class Refusal(NamedTuple):
    """What a provider answered in place of a reply. `http_status` is 200 for an error inside a stream."""

    http_status: int
    body: Any
    headers: Mapping[str, str] = {}
    secret: str = ""  # some providers repeat the key that they refuse

    @property
    def status(self) -> int:
        """The status, which an error inside a stream names as its code, if at all."""
        code = str(self.error.get("code") or self.error.get("status") or "")
        return int(code) if self.http_status == 200 and re.fullmatch(r"[45]\d\d", code) else self.http_status

    @property
    def error(self) -> Mapping[str, Any]:
        """The error object, wherever in the body it stands."""
        body = self.body[0] if isinstance(self.body, list) and self.body else self.body
        inner = body.get("error", body) if isinstance(body, Mapping) else body
        if isinstance(inner, Mapping):
            return inner
        # A proxy's page of HTML says nothing to people.
        return {"message": inner} if isinstance(inner, str) and "<" not in inner[:20] else {}

    @property
    def words(self) -> str:
        """The provider's own words and its request id; never the page of HTML that a proxy sends."""
        said = str(self.error.get("message") or "no words of its own")
        message = (said.replace(self.secret, "***") if self.secret else said)[:_WORDS_CHARS]
        request_id = self.headers.get("x-request-id")
        return mended(f"status {self.status}: {message}") + (f", request {request_id}" if request_id else "")

    def says(self, pattern: str) -> bool:
        """Whether message, code or type match."""
        texts = (self.error.get(name) for name in ("message", "code", "type", "status"))
        return any(re.search(pattern, str(text)[:_READ_CHARS], re.IGNORECASE) for text in texts if text)

    @property
    def wait_s(self) -> float | None:
        """Seconds to wait, from the headers or from the words; None where neither says."""
        if (wait_s := retry_after_s(self.headers)) is not None:
            return wait_s
        said = re.search(_SHORTLY, str(self.error.get("message"))[:_READ_CHARS], re.IGNORECASE)
        if said is None:
            return None
        return 60 * int(said["minutes"] or 0) + float(said["number"]) / (1000 if said["unit"].lower() == "ms" else 1)


# What providers say in each case, read off their documents and their users' reports.
_QUOTA = (
    r"insufficient_quota|exceeded your current quota|credit balance|insufficient (balance|credit|fund)|payment required"
    r"|billing_|billing hard limit|check your billing|arrearage|good standing"
)
_FILTER = (
    r"content.?filter|content (management )?policy|content_policy|moderation|safety (system|filter|polic)|flagged"
    r"|responsible.?ai|usage polic|data_inspection|inappropriate content|content exists risk"
)
_OVERFLOW = (
    r"context.?(length|window|size|limit)|maximum (context|prompt|model) ?length|too many tokens|prompt is too long"
    r"|input is too long|exceeds? the (available )?context|reduce the length|token count .{0,40}exceeds"
    r"|string_above_max_length|range of input length|inputs. tokens \+"
)
_TOOLS = r"\W?(tools?|tool (use|calls?|calling)|tool_choice|tool_calls|functions|function[ _]call(s|ing)?)\b\W?"
# The tools themselves must be what is refused: a schema or another field that is not taken says nothing about them.
_NO_TOOLS = (
    rf"(does|do|did) ?(no|n'|n’)t support (the |any )?{_TOOLS}|(^|[\s:]){_TOOLS} (is|are) (not|un)[ -]?support"
    rf"|(^|[\s:]){_TOOLS} (is|are) not (enabled|allowed)"
    r"|no endpoints found that support tool|auto.{0,20}tool.choice requires|tools? param requires"
    r"|(unsupported|unknown|unrecognized) (request )?(parameter|argument|field)s?( supplied)?:? \W?"
    r"(tools|tool_choice|functions|function_call)\b(?![.\[])"
)
_LASTING = r"invalid_request|invalid_argument|authentication|permission|not_found"

# Read from the top; the first that applies decides. A quota that is spent comes as 429 as well, so it stands before
# the rate limit, whose words may be the same but for the time to wait; filters, overflows and missing tools come as
# 400, so they stand before the plain rejection. Status 200 is an error inside a stream that names no status.
_Rule = tuple[Callable[[Refusal], bool], type[ModelError], str]
_RULES: tuple[_Rule, ...] = (
    (
        lambda it: it.status == 402 or (it.says(_QUOTA) and not it.says(_SHORTLY)),
        ModelQuotaSpent,
        "The account at the model's provider has nothing left",
    ),
    (
        lambda it: it.status in (200, 400, 403) and it.says(_FILTER),
        ModelFiltered,
        "The content filter of the model's provider stopped the request",
    ),
    (
        lambda it: it.status in (401, 403),
        ModelKeyRefused,
        "The model's provider refuses the key",
    ),
    (
        lambda it: (
            (it.status in (200, 400, 413, 422, 500) and it.says(_OVERFLOW))
            or (it.status in (413, 429) and it.says("request too large"))  # no wait makes it smaller
        ),
        ModelContextExceeded,
        "The conversation is longer than the model takes",
    ),
    (
        lambda it: it.status in (200, 400, 404, 422, 500, 501) and it.says(_NO_TOOLS),
        ModelLacksTools,
        "The model takes no tools in this form",
    ),
    (
        lambda it: it.status in _TRANSIENT or it.status >= 500 or (it.status == 200 and not it.says(_LASTING)),
        ModelBusy,
        "The model's provider is busy or down",
    ),
)


def read_refusal(refusal: Refusal) -> ModelError:
    """The error that a refusal stands for."""
    for applies, kind, says in _RULES:
        if applies(refusal):
            message = f"{says} ({refusal.words})."
            return ModelBusy(message, refusal.wait_s) if kind is ModelBusy else kind(message)
    return ModelRequestRejected(f"The model's provider rejects the request ({refusal.words}).")


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait, from `retry-after-ms`, or from `retry-after` in seconds or as a date; None for neither."""
    try:
        if re.fullmatch(r"\d{1,12}", headers.get("retry-after-ms", "")):
            return int(headers["retry-after-ms"]) / 1000
        value = headers.get("retry-after", "")
        if re.fullmatch(r"\s*-?\d{1,9}(\.\d{1,9})?\s*", value):
            return max(0.0, float(value))
        date = parsedate_to_datetime(value)
        return max(0.0, (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - time.time())
    except (ValueError, OverflowError, IndexError):
        return None
