"""Who may do what, read from what CloudFormation gets: nothing is granted to all, nor on all, without a reason here."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.translated import Allowed, Json, allowed, alternatives, listed, resources

# ---- what is wide, each with why

_LOG_DELIVERY = "log delivery of state machines takes no resource"
_TRACES = "traces take no resource"
ACTIONS_WITHOUT_RESOURCE = {
    "logs:CreateLogDelivery": _LOG_DELIVERY,
    "logs:GetLogDelivery": _LOG_DELIVERY,
    "logs:UpdateLogDelivery": _LOG_DELIVERY,
    "logs:DeleteLogDelivery": _LOG_DELIVERY,
    "logs:ListLogDeliveries": _LOG_DELIVERY,
    "logs:PutResourcePolicy": _LOG_DELIVERY,
    "logs:DescribeResourcePolicies": _LOG_DELIVERY,
    "logs:DescribeLogGroups": _LOG_DELIVERY,
    "xray:PutTraceSegments": _TRACES,
    "xray:PutTelemetryRecords": _TRACES,
    "xray:GetSamplingRules": _TRACES,
    "xray:GetSamplingTargets": _TRACES,
}
WIDE_ACTIONS = {("NotifyKey", "kms:*"): "the account's administrators, or nobody could change the key any more"}
WIDE_RESOURCES = {
    "${PayloadBucket.Arn}/payloads/*": "texts too long for an item, named by their content",
    "${PayloadBucket.Arn}/results/*": "results too long to show, named by run and call",
    "${PayloadBucket.Arn}/replies/*": "answers to those who asked to find them in the bucket, named by their run",
    "${PayloadBucket.Arn}/batches/inputs/*": "files of batches, named by their batch",
    "${PayloadBucket.Arn}/batches/results/*": "files of batches, named by their batch",
    "${InboxBucket.Arn}/*": "objects that start runs, which others name",
    "${PayloadBucket.Arn}/${DocumentsPrefix}*": "the documents, of which a parameter says where they begin",
    "secretsmanager:secret:stepagent/models/*": "keys of models, which the catalog names",
    "secretsmanager:secret:stepagent/tools/*": "secrets of tools, which the catalog names",
    "scheduler:schedule/${ReminderGroup}/*": "one schedule a reminder, in this stack's own group",
    "states:execution:${AWS::StackName}-agent:*": "executions of this stack's machine, one a run",
    "states:execution:${AWS::StackName}-plan:*": "executions of this stack's machine, one a run with a plan",
    "states:execution:${AWS::StackName}-batch:*": "executions of this stack's machine, one a batch",
    "states:execution:${AWS::StackName}-batch/inputs:*": "what that machine starts for its inputs",
    "states:execution:*:run_*": "executions of workflows, whose names begin as calls do",
}
MANAGED_POLICIES = {
    "service-role/AWSLambdaBasicExecutionRole": "SAM gives it to each function, so that it can write its logs",
    "AWSXrayWriteOnlyAccess": "SAM gives it to each function that is traced; traces take no resource",
}
_LAMBDA = "lambda.amazonaws.com"  # takes no condition: functions are made with this role by whoever may pass it
_STANDARD = "arn:${AWS::Partition}:"

# ---- what is read


def text_of(resource: Any) -> str:
    """A resource as its reasons name it: what all ARNs of the account have in common is left out."""
    text = str(resource["Fn::Sub"] if isinstance(resource, dict) and "Fn::Sub" in resource else json.dumps(resource))
    return text.replace("${AWS::Region}:${AWS::AccountId}:", "").removeprefix(_STANDARD).strip('"')


def named(statement: Json, part: str) -> list[Any]:
    return [each for value in listed(statement.get(part, [])) for each in alternatives(value)]


def of_type(kind: str) -> Iterator[tuple[str, Json]]:
    return ((name, each["Properties"]) for name, each in resources().items() if each["Type"] == kind)


def is_own_policy(each: Allowed) -> bool:
    """Whether it is the policy of a resource, such as a queue, which speaks of that resource alone."""
    return "Principal" in each.statement and "Resource" in each.statement


GRANTS = list(allowed())
IDS = [f"{each.resource}-{index}" for index, each in enumerate(GRANTS)]
TO_ROLES = [each for each in GRANTS if "Principal" not in each.statement]


@pytest.mark.parametrize("each", GRANTS, ids=IDS)
def test_statement_names_what_it_allows_and_to_whom(each: Allowed) -> None:
    assert not {"NotAction", "NotResource", "NotPrincipal"} & set(each.statement)
    assert "*" not in json.dumps(each.statement.get("Principal", ""))
    wide = {(each.resource, action) for action in listed(each.statement["Action"]) if "*" in action}
    assert wide <= set(WIDE_ACTIONS)


@pytest.mark.parametrize("each", TO_ROLES, ids=[IDS[GRANTS.index(each)] for each in TO_ROLES])
def test_statement_names_its_resources_or_has_a_reason_here(each: Allowed) -> None:
    wide = {text_of(resource) for resource in named(each.statement, "Resource") if "*" in json.dumps(resource)}
    if wide == {"*"}:
        assert set(listed(each.statement["Action"])) <= set(ACTIONS_WITHOUT_RESOURCE)
    else:
        assert wide <= set(WIDE_RESOURCES)


def test_every_reason_is_still_needed() -> None:
    actions = {action for each in GRANTS for action in listed(each.statement["Action"])}
    resources_named = {text_of(resource) for each in TO_ROLES for resource in named(each.statement, "Resource")}
    assert set(ACTIONS_WITHOUT_RESOURCE) <= actions
    assert {action for _, action in WIDE_ACTIONS} <= actions
    assert set(WIDE_RESOURCES) <= resources_named


@pytest.mark.parametrize("name", dict(of_type("AWS::IAM::Role")))
def test_role_has_only_those_policies_of_aws_that_have_a_reason_here(name: str) -> None:
    arns = resources()[name]["Properties"].get("ManagedPolicyArns", [])
    assert {arn.partition(":policy/")[2] for arn in arns} <= set(MANAGED_POLICIES)


@pytest.mark.parametrize("name", dict(of_type("AWS::IAM::Role")))
def test_role_is_assumed_by_one_service_and_on_behalf_of_this_account(name: str) -> None:
    [trust] = listed(resources()[name]["Properties"]["AssumeRolePolicyDocument"]["Statement"])
    [service] = listed(trust["Principal"]["Service"])
    account = {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}
    assert service == _LAMBDA or account.items() <= trust["Condition"]["StringEquals"].items()


@pytest.mark.parametrize("name", dict(of_type("AWS::Lambda::Permission")))
def test_function_is_invoked_by_one_source_of_one_service(name: str) -> None:
    permission = resources()[name]["Properties"]
    assert permission["Action"] == "lambda:InvokeFunction"
    assert str(permission["Principal"]).endswith(".amazonaws.com")
    assert permission["SourceArn"]


def test_every_function_has_a_role_of_its_own() -> None:
    roles = [json.dumps(properties["Role"]) for _, properties in of_type("AWS::Lambda::Function")]
    assert len(roles) == len(set(roles)) > 0


def test_every_method_asks_the_authorizer_except_preflights() -> None:
    [(_, api)] = of_type("AWS::ApiGateway::RestApi")
    open_to_all = {
        method
        for methods in api["Body"]["paths"].values()
        for method, operation in methods.items()
        if not any("BearerKey" in required for required in operation.get("security", ()))
    }
    assert open_to_all == {"options"}


@pytest.mark.parametrize("name", dict(of_type("AWS::S3::Bucket")))
def test_bucket_is_closed_to_the_public_and_to_what_is_not_encrypted_on_its_way(name: str) -> None:
    assert all(resources()[name]["Properties"]["PublicAccessBlockConfiguration"].values())
    [policy] = [each for _, each in of_type("AWS::S3::BucketPolicy") if each["Bucket"] == {"Ref": name}]
    [denied] = [each for each in policy["PolicyDocument"]["Statement"] if each["Effect"] == "Deny"]
    assert (denied["Principal"], denied["Action"]) == ("*", "s3:*")
    assert denied["Resource"] == [{"Fn::GetAtt": [name, "Arn"]}, {"Fn::Sub": f"${{{name}.Arn}}/*"}]
    assert denied["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}


def targets_of_events() -> set[str]:
    """The functions that rules and schedules invoke, whose answer nobody waits for."""
    services = {"events.amazonaws.com", "scheduler.amazonaws.com"}
    by_rules = {
        permission["FunctionName"]["Ref"]
        for _, permission in of_type("AWS::Lambda::Permission")
        if permission["Principal"] in services
    }
    by_schedules = {
        resource["Fn::GetAtt"][0]
        for name, role in of_type("AWS::IAM::Role")
        if "scheduler.amazonaws.com" in json.dumps(role["AssumeRolePolicyDocument"])
        for each in TO_ROLES
        if each.resource == name and each.statement["Action"] == "lambda:InvokeFunction"
        for resource in listed(each.statement["Resource"])
    }
    return by_rules | by_schedules


def test_event_that_a_function_fails_to_hear_is_kept() -> None:
    functions = dict(of_type("AWS::Lambda::Function"))
    kept = {name for name, properties in functions.items() if "DeadLetterConfig" in properties}
    assert kept == targets_of_events() >= {"FinalizeFunction", "RemindFunction"}


@pytest.mark.parametrize("kind", ["AWS::SQS::Queue", "AWS::SNS::Topic", "AWS::S3::Bucket", "AWS::DynamoDB::Table"])
def test_everything_kept_is_encrypted(kind: str) -> None:
    settings = {
        "AWS::SQS::Queue": "SqsManagedSseEnabled",
        "AWS::SNS::Topic": "KmsMasterKeyId",
        "AWS::S3::Bucket": "BucketEncryption",
        "AWS::DynamoDB::Table": "SSESpecification",
    }
    kept = dict(of_type(kind))
    assert kept
    assert [name for name, properties in kept.items() if not properties.get(settings[kind])] == []


@pytest.mark.parametrize("name", dict(of_type("AWS::Logs::LogGroup")))
def test_log_group_forgets_after_a_time(name: str) -> None:
    assert resources()[name]["Properties"]["RetentionInDays"] == {"Ref": "LogDays"}


def test_every_function_writes_to_a_log_group_that_forgets() -> None:
    groups = {properties["LoggingConfig"]["LogGroup"]["Ref"] for _, properties in of_type("AWS::Lambda::Function")}
    assert groups <= set(dict(of_type("AWS::Logs::LogGroup")))


def test_api_logs_neither_bodies_nor_what_is_in_a_path() -> None:
    [(_, stage)] = of_type("AWS::ApiGateway::Stage")
    assert not [each for each in stage["MethodSettings"] if {"DataTraceEnabled", "LoggingLevel"} & set(each)]
    condition, logged, nothing = stage["AccessLogSetting"]["Fn::If"]
    assert (condition, nothing) == ("LogsAccess", {"Ref": "AWS::NoValue"})
    values = set(re.findall(r"\$context\.([\w.]+)", logged["Format"]))
    assert not {"path", "customDomain.basePathMatched", "authorizer.claims", "authorizer.error"} & values
    assert json.loads(re.sub(r"\$context\.[\w.]+", "0", logged["Format"]))


@pytest.mark.parametrize("name", dict(of_type("AWS::StepFunctions::StateMachine")))
def test_state_machine_logs_no_data_of_its_executions(name: str) -> None:
    logging = resources()[name]["Properties"]["LoggingConfiguration"]
    assert logging["IncludeExecutionData"] is False
    assert logging["Destinations"]
