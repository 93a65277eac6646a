"""Every error that the library raises on purpose.

StepAgentError
├── RequestError                  the caller's fault: an HTTP 4xx
│   ├── InvalidRequest       400
│   ├── Forbidden            403
│   ├── NotFound             404  also: what belongs to somebody else
│   ├── Conflict             409
│   ├── Expired              410
│   ├── PreconditionFailed   412
│   ├── BodyTooLarge         413
│   ├── InvalidAnswer        422
│   ├── IdempotencyKeyReused 422
│   └── BudgetSpent          429
├── ModelError                    the provider's fault: it ends the run, or makes it wait
│   ├── ModelBusy                 waiting helps
│   ├── ModelQuotaSpent           somebody must pay
│   ├── ModelKeyRefused           somebody must mend the key
│   ├── ModelContextExceeded      a shorter conversation helps
│   ├── ModelLacksTools           another calling mode helps
│   ├── ModelFiltered             the provider's filter stopped it
│   ├── ModelRequestRejected      the same request would be rejected again
│   └── ModelReplyUnusable        empty, cut or not to be understood
├── ConfigurationError            the deployment's fault
├── RecordConflict                somebody else wrote first: read again
├── RecordUnavailable             the tables, the bucket or a queue do not answer: the state machine tries again
├── WebError                      another's server was not asked or did not answer: web/errors.py
├── IssuerUnavailable             an issuer's keys cannot be had: api/signing_keys.py
├── NotDelivered                  a result did not arrive where it should: replies/delivery.py
└── ToolError                     raised by a tool; its message goes to the model
"""

from typing import ClassVar

from stepagent.usage import Usage


class StepAgentError(Exception):
    """Carries a message for people and a code for programs.

    Messages hold numbers, names and ids, never payloads or secrets.
    """

    code: ClassVar[str] = "internal_error"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class RequestError(StepAgentError):
    """The caller can mend it. `param` names the field that is wrong, where one is."""

    http_status: ClassVar[int] = 400
    code: ClassVar[str] = "invalid_request"

    def __init__(self, message: str, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.param = param
        self.error_code = code or self.code


class InvalidRequest(RequestError):
    """The request is not well formed, or asks for what is not supported."""


class Forbidden(RequestError):
    """The key may not do this; the message names the scope that it lacks."""

    http_status: ClassVar[int] = 403
    code: ClassVar[str] = "forbidden"


class NotFound(RequestError):
    """It does not exist, or it belongs to somebody else; the answer is the same."""

    http_status: ClassVar[int] = 404
    code: ClassVar[str] = "not_found"


class Conflict(RequestError):
    """It was decided otherwise, or it is busy."""

    http_status: ClassVar[int] = 409
    code: ClassVar[str] = "conflict"


class Expired(RequestError):
    """Nobody waits for this answer any more."""

    http_status: ClassVar[int] = 410
    code: ClassVar[str] = "expired"


class PreconditionFailed(RequestError):
    """The row stands otherwise than the client takes for granted: read it again."""

    http_status: ClassVar[int] = 412
    code: ClassVar[str] = "precondition_failed"


class BodyTooLarge(RequestError):
    """The body is above the limit that the message names."""

    http_status: ClassVar[int] = 413
    code: ClassVar[str] = "body_too_large"


class InvalidAnswer(RequestError):
    """An answer to a question has the wrong shape; the question stays open."""

    http_status: ClassVar[int] = 422
    code: ClassVar[str] = "invalid_answer"


class IdempotencyKeyReused(RequestError):
    """The key was sent before, with something else."""

    http_status: ClassVar[int] = 422
    code: ClassVar[str] = "idempotency_key_reused"


class BudgetSpent(RequestError):
    """Nothing is left of the key's budget; the message says when it renews. What goes on already goes on."""

    http_status: ClassVar[int] = 429
    code: ClassVar[str] = "budget_spent"


class ModelError(StepAgentError):
    """The model gave no usable reply. `usage` is what the provider counted all the same."""

    code: ClassVar[str] = "model_error"

    def __init__(self, message: str, usage: Usage | None = None) -> None:
        super().__init__(message)
        self.usage = usage or Usage()


class ModelBusy(ModelError):
    """Waiting helps. `wait_s` is what the provider asked for, in seconds, or None where it did not say."""

    code: ClassVar[str] = "model_busy"

    def __init__(self, message: str, wait_s: float | None = None) -> None:
        super().__init__(message)
        self.wait_s = wait_s


class ModelQuotaSpent(ModelError):
    """The account behind the key has nothing left; waiting does not help."""

    code: ClassVar[str] = "model_quota_spent"


class ModelContextExceeded(ModelError):
    """The conversation is longer than the model takes."""

    code: ClassVar[str] = "model_context_exceeded"


class ModelLacksTools(ModelError):
    """The model, or its server, takes no tools in this form."""

    code: ClassVar[str] = "model_lacks_tools"


class ModelFiltered(ModelError):
    """The provider's content filter stopped the request or the reply."""

    code: ClassVar[str] = "content_filter"


class ModelKeyRefused(ModelError):
    """The provider does not accept the key."""

    code: ClassVar[str] = "model_key_refused"


class ModelRequestRejected(ModelError):
    """The provider will reject the same request every time."""

    code: ClassVar[str] = "model_request_rejected"


class ModelReplyUnusable(ModelError):
    """The provider answered with nothing, with half an answer, or with something else than an answer."""

    code: ClassVar[str] = "model_reply_unusable"


class ConfigurationError(StepAgentError):
    """The deployment lacks a setting, or the catalog holds something wrong."""

    code: ClassVar[str] = "configuration_error"


class RecordConflict(StepAgentError):
    """A condition on the record did not hold: somebody else wrote first."""

    code: ClassVar[str] = "record_conflict"


class RecordUnavailable(StepAgentError):
    """DynamoDB, S3 or SQS did not take a request, also when it was repeated. Every state may be entered again."""

    code: ClassVar[str] = "record_unavailable"


class ToolError(StepAgentError):
    """A tool could not do it. The message is written for the model, which may try again otherwise."""

    code: ClassVar[str] = "tool_error"
