"""The API's authorizer: who sends a key that is known, or a token of the issuer that is trusted."""

from typing import Any

from pydantic import BaseModel, Field

from stepagent.api.keys import Caller, bearer_in, caller_of_key
from stepagent.api.tokens import caller_of_token
from stepagent.observe import observed
from stepagent.settings import settings


class AuthorizerRequest(BaseModel):
    token: str = Field("", validation_alias="authorizationToken")
    method_arn: str = Field(validation_alias="methodArn")


@observed
def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    request = AuthorizerRequest.model_validate(event)
    bearer = bearer_in(request.token)
    return _answer(request.method_arn, caller_of_key(bearer) or caller_of_token(bearer))


def _answer(method_arn: str, caller: Caller | None) -> dict[str, Any]:
    """One policy for the whole API, since API Gateway keeps it for all methods, a refusal too."""
    api_arn = "/".join(method_arn.split("/")[:2])
    statement = {
        "Action": "execute-api:Invoke",
        "Effect": "Allow" if caller else "Deny",
        "Resource": f"{api_arn}/*",
    }
    policy = {"Version": "2012-10-17", "Statement": [statement]}
    if caller is None:
        return {"principalId": "nobody", "policyDocument": policy}
    usage_key = caller.usage_key or settings().shared_usage_key
    return {
        "principalId": caller.principal,
        "policyDocument": policy,
        "context": caller.context,
        "usageIdentifierKey": usage_key,
    }
