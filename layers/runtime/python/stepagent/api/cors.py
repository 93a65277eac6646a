"""Pages of other origins: which ones a browser lets read our replies, and what they may send and see.

There are no cookies, so an origin is no secret to keep: a page can do what the key can that it sends. API Gateway
answers preflights, and its own errors, for all origins; the functions name the origin that they answer.
"""

from stepagent.settings import settings

ALLOWED_METHODS = ("GET", "POST", "PUT", "DELETE")
# The star is for headers that OpenAI's clients add of their own (X-Stainless-…); it does not stand for Authorization.
ALLOWED_HEADERS = (
    *("Authorization", "Content-Type", "Idempotency-Key", "Last-Event-ID", "If-Match", "If-None-Match"),
    "*",
)
EXPOSED_HEADERS = ("X-StepAgent-Run-Id", "X-StepAgent-Stop-Reason", "ETag", "Location", "Retry-After", "X-Should-Retry")
PREFLIGHT_S = 600  # for which a browser need not ask again


def allowed_origins() -> list[str]:
    """The origins that the deployment names, or `*`; none allows no page."""
    return [origin for origin in settings().cors_origins.replace(" ", "").split(",") if origin]
