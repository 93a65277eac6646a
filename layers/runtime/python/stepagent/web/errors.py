"""Why a request to another's server came to nothing.

WebError                 its message names the host, never a path, a header or a body: they may hold secrets
├── WebRefused           not allowed, or not a plain URL: nothing was sent there, and repeating does not help
├── WebUnreachable       no such name, no connection, a certificate that is not valid: nothing was sent
├── WebTimedOut          the time was over
└── WebReplyUnusable     the server broke off, answered with something else than HTTP, or with too much of it
"""

from typing import ClassVar

from stepagent.errors import StepAgentError


class WebError(StepAgentError):
    """A request came to nothing. `sent` says whether a server may have acted on it."""

    code: ClassVar[str] = "web_error"
    sent: bool = False


class WebRefused(WebError):
    """It would have gone where it may not go."""

    code: ClassVar[str] = "web_refused"


class WebUnreachable(WebError):
    """There is no connection to the server."""

    code: ClassVar[str] = "web_unreachable"


class WebTimedOut(WebError):
    """It took longer than it may; how far it came is not known."""

    code: ClassVar[str] = "web_timed_out"


class WebReplyUnusable(WebError):
    """The server's answer is none, is broken, or is larger than an answer may be."""

    code: ClassVar[str] = "web_reply_unusable"
