"""The API's authorizer: a bearer key is known by its hash."""

from typing import Any

from pydantic import BaseModel, Field

from stepagent.api.keys import caller_of


class AuthorizerRequest(BaseModel):
    token: str = Field("", validation_alias="authorizationToken")
    method_arn: str = Field(validation_alias="methodArn")


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    request = AuthorizerRequest.model_validate(event)
    caller = caller_of(request.token)
    # One policy for the whole API, since API Gateway caches it across methods.
    api_arn = "/".join(request.method_arn.split("/")[:2])
    statement = {
        "Action": "execute-api:Invoke",
        "Effect": "Allow" if caller else "Deny",
        "Resource": f"{api_arn}/*",
    }
    policy = {"Version": "2012-10-17", "Statement": [statement]}
    if caller is None:
        return {"principalId": "nobody", "policyDocument": policy}
    context = {"scopes": " ".join(sorted(caller.scopes))}  # its values are texts, never lists
    return {"principalId": caller.principal, "policyDocument": policy, "context": context}
