"""The template's parameters: none lets a wildcard into a policy, and what a service would refuse is refused at once."""

import re
from collections.abc import Iterator
from typing import Any

import boto3
import pytest

from tests.translated import Json, allowed, listed, translated_template

PARAMETERS: Json = translated_template()["Parameters"]
_PLACE = "eu-central-1:123456789012"

# What those that come into policies take. A value that ends in a wildcard by its meaning has it here.
TAKEN = {
    "DocumentsPrefix": ["documents/", "documents"],
    "EventBusName": ["default", "orders/bus-1"],
    "ExternalFunctionArns": [
        f"arn:aws:lambda:{_PLACE}:function:orders",
        f"arn:aws:lambda:{_PLACE}:function:orders:live",
        f"arn:aws-cn:lambda:{_PLACE}:function:orders:$LATEST",
    ],
    "IngestSenderArns": [
        "arn:aws:iam::123456789012:role/team/sender",
        "arn:aws:iam::123456789012:user/ann@example.com",
    ],
    "IngestSourceArns": [
        "arn:aws:s3:::uploads.example.com",
        f"arn:aws:events:{_PLACE}:rule/orders",
        f"arn:aws:events:{_PLACE}:rule/partners/bus/orders",
    ],
    "ModelApiKeySecretArn": [f"arn:aws-us-gov:secretsmanager:{_PLACE}:secret:stepagent/models/openai-AbC123"],
    "ReplyObjectArns": ["arn:aws:s3:::results/agents/*", "arn:aws:s3:::results/*"],
    "ReplyQueueArns": [f"arn:aws:sqs:{_PLACE}:results.fifo"],
    "WorkflowArns": [f"arn:aws:states:{_PLACE}:stateMachine:orders"],
}
VALUES = [(name, value) for name, values in TAKEN.items() for value in values]


def referred(value: Any) -> Iterator[str]:
    """The names to which a value refers, also within a text."""
    if isinstance(value, dict):
        yield from listed(value.get("Ref", []))
        yield from re.findall(r"\$\{(\w+)\}", str(value.get("Fn::Sub", "")))
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from referred(inner)


def with_wildcards(value: str) -> set[str]:
    """A value with a wildcard in the place of each of its parts, or behind it, or behind its first ones."""
    parts = re.split(r"([:/])", value)
    found = {"*", "?"}
    for at in range(0, len(parts), 2):
        for wild in ("*", "?", f"{parts[at]}*", f"{parts[at]}?", f"*{parts[at]}"):
            found |= {"".join((*parts[:at], wild, *parts[at + 1 :])), "".join((*parts[:at], wild))}
    return found - set(TAKEN["ReplyObjectArns"])


def takes(name: str, value: str) -> bool:
    """Whether CloudFormation would take it: of a list each value must fit."""
    pattern = PARAMETERS[name].get("AllowedPattern", ".*")
    return bool(re.fullmatch(pattern, value))


def test_parameters_that_come_into_policies_are_those_that_are_looked_at_here() -> None:
    found = {name for each in allowed() for name in referred(each.statement)}
    assert found & set(PARAMETERS) == set(TAKEN)


@pytest.mark.parametrize(("name", "value"), VALUES)
def test_parameter_of_a_policy_takes_what_it_is_for_and_its_default(name: str, value: str) -> None:
    assert takes(name, value)
    assert takes(name, PARAMETERS[name]["Default"])


@pytest.mark.parametrize(("name", "value"), VALUES)
def test_parameter_of_a_policy_takes_no_wildcard(name: str, value: str) -> None:
    assert [wild for wild in sorted(with_wildcards(value)) if takes(name, wild)] == []


@pytest.mark.parametrize("value", ["123456789012", "arn:aws:iam::123456789012:root", "arn:aws:iam::123456789012:role/"])
def test_whole_account_is_no_sender(value: str) -> None:
    assert not takes("IngestSenderArns", value)


def test_logs_are_kept_for_days_that_cloudwatch_takes() -> None:
    [listing] = re.findall(r"Possible values are: ([\d, and]+)", _days_of_logs())
    assert PARAMETERS["LogDays"]["AllowedValues"] == [int(days) for days in re.findall(r"\d+", listing)]
    assert PARAMETERS["LogDays"]["Default"] in PARAMETERS["LogDays"]["AllowedValues"]


def _days_of_logs() -> str:
    """What the SDK says of the days for which a log group keeps what is written to it."""
    return str(boto3.client("logs").meta.service_model.shape_for("Days").documentation)
