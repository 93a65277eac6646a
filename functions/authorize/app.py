"""The API's authorizer: a bearer key is known by its hash."""

from typing import Any

from pydantic import BaseModel, Field

from stepagent.api.keys import principal_of


class AuthorizerRequest(BaseModel):
    token: str = Field("", validation_alias="authorizationToken")
    method_arn: str = Field(validation_alias="methodArn")


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    request = AuthorizerRequest.model_validate(event)
    principal = principal_of(request.token)
    # One policy for the whole API, since API Gateway caches it across methods.
    api_arn = "/".join(request.method_arn.split("/")[:2])
    statement = {
        "Action": "execute-api:Invoke",
        "Effect": "Allow" if principal else "Deny",
        "Resource": f"{api_arn}/*",
    }
    policy = {"Version": "2012-10-17", "Statement": [statement]}
    return {"principalId": principal or "nobody", "policyDocument": policy}
