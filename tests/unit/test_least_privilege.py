"""Who may do what, read from what CloudFormation gets: nothing is granted to all, nor on all, without a reason here."""

import copy
import json
import re
from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import pytest

from tests import translated
from tests.translated import Allowed, Json, allowed, alternatives, listed, resources, translated_template


class Grant(NamedTuple):
    """One action that one role, service or account may do to what a text names."""

    to: str
    action: str
    resource: str


Reasons = dict[tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]], str]  # who, which actions, on what: why

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


def roles_of(each: Allowed) -> list[str]:
    """The roles that a statement without a principal is for."""
    added = resources()[each.resource]["Properties"].get("Roles")
    return [role["Ref"] for role in added] if added else [each.resource]


def principals_of(each: Allowed) -> list[str]:
    """Those whom a statement names: services, accounts, and parameters that list them."""
    return [text_of(name) for names in each.statement["Principal"].values() for name in listed(names)]


def to_be_reasoned(each: Allowed) -> set[Grant]:
    """What a statement allows to others than roles of this stack, or on more than it names one by one."""
    if is_own_policy(each):
        to, on = principals_of(each), [each.resource]
    elif "Principal" in each.statement:  # who may take on a role
        return set()
    else:
        to, on = roles_of(each), [text_of(one) for one in named(each.statement, "Resource") if _is_wide(one)]
    return {Grant(*grant) for grant in product(to, listed(each.statement["Action"]), on)}


def _is_wide(resource: Any) -> bool:
    return bool(re.search(r"[*?]", json.dumps(resource)))


def reasoned(reasons: Reasons) -> set[Grant]:
    return {Grant(*grant) for who_what_on in reasons for grant in product(*who_what_on)}


def functions(*names: str) -> tuple[str, ...]:
    """The roles of these functions."""
    return tuple(f"{name}FunctionRole" for name in names)


# ---- what is wide, and what is given to others, each with why

_STANDARD = "arn:${AWS::Partition}:"
_TOOLS = tuple(f"{name}Role" for name, _ in of_type("AWS::Lambda::Function") if name.startswith("Tool"))
_MACHINES = ("AgentStateMachineRole", "PlanStateMachineRole", "BatchStateMachineRole")
_STARTING = functions("Api", "Stream", "Ingest", "RunInput", "StartWorkflow", "Finalize")
_STOPPING = functions("Api", "RecordCallFailure", "FinishBatch")
_WORKING = (*_STARTING, *functions("Think", "Ask", "FinishWorkflow", "RecordCallFailure", "FinishBatch"), *_TOOLS)
_IN_BATCHES = (*functions("PrepareBatch", "FinishBatch"), "BatchStateMachineRole")
_PAYLOADS, _RESULTS = "${PayloadBucket.Arn}/payloads/*", "${PayloadBucket.Arn}/results/*"
_BATCH_FILES = "${PayloadBucket.Arn}/batches/results/*"
_RUNS = ("states:execution:${AWS::StackName}-agent:*", "states:execution:${AWS::StackName}-plan:*")
_BATCHES = ("states:execution:${AWS::StackName}-batch:*",)
_LOG_DELIVERIES = ("CreateLogDelivery", "GetLogDelivery", "UpdateLogDelivery", "DeleteLogDelivery", "ListLogDeliveries")
_LOG_POLICIES = ("PutResourcePolicy", "DescribeResourcePolicies", "DescribeLogGroups")
_TRACES = ("PutTraceSegments", "PutTelemetryRecords", "GetSamplingRules", "GetSamplingTargets")
_READ, _WRITE, _SECRET = ("s3:GetObject",), ("s3:PutObject",), ("secretsmanager:GetSecretValue",)
_LOOK, _STOP = ("states:DescribeExecution",), ("states:StopExecution",)

WIDE_RESOURCES: Reasons = {
    (_MACHINES, tuple(f"logs:{name}" for name in (*_LOG_DELIVERIES, *_LOG_POLICIES)), ("*",)): (
        "log delivery of state machines takes no resource"
    ),
    (_MACHINES, tuple(f"xray:{name}" for name in _TRACES), ("*",)): "traces take no resource",
    (_WORKING, _READ + _WRITE, (_PAYLOADS,)): "texts too long for an item, named by their content",
    (functions("DeliverReply", "Remind"), _READ, (_PAYLOADS,)): "answers and questions among them, which they tell",
    (_WORKING, _READ + _WRITE, (_RESULTS,)): "results too long to show, named by run and call",
    (functions("DeliverReply"), _WRITE, ("${PayloadBucket.Arn}/replies/*",)): (
        "answers to those who asked to find them in the bucket, named by their run"
    ),
    (functions("PrepareBatch", "RunInput", "FinishBatch"), _READ, ("${PayloadBucket.Arn}/batches/inputs/*",)): (
        "files that people put there, named as they like"
    ),
    ((*_IN_BATCHES, *functions("Api")), _READ + _WRITE, (_BATCH_FILES,)): "files of batches, named by their batch",
    (functions("RunInput"), _READ, (_BATCH_FILES,)): "inputs among them",
    (_IN_BATCHES, ("s3:AbortMultipartUpload",), (_BATCH_FILES,)): "the same, too large for one request",
    (("BatchStateMachineRole",), ("s3:ListMultipartUploadParts",), (_BATCH_FILES,)): "the same, as Step Functions does",
    (functions("Ingest"), _READ, ("${InboxBucket.Arn}/*",)): "objects that start runs, which others name",
    (functions("ToolSearchDocs"), _READ, ("${PayloadBucket.Arn}/${DocumentsPrefix}*",)): (
        "the documents, of which a parameter says where they begin"
    ),
    (
        functions("Think"),
        _SECRET,
        ("secretsmanager:secret:stepagent/models/*",),
    ): "keys of models, which the catalog names",
    (functions("ToolHttp", "ToolMcp"), _SECRET, ("secretsmanager:secret:stepagent/tools/*",)): (
        "secrets of tools, which the catalog names"
    ),
    (functions("Ask"), ("scheduler:CreateSchedule",), ("scheduler:schedule/${ReminderGroup}/*",)): (
        "one schedule a reminder, in this stack's own group"
    ),
    (_STARTING, _LOOK, _RUNS): "executions of this stack's machines, one a run, of which some were lost",
    (_STOPPING, _STOP, _RUNS): "the same, of runs that are cancelled or whose caller waits no longer",
    (functions("Api", "FinishBatch"), _LOOK, _BATCHES): "executions of this stack's machine, one a batch",
    (functions("Api"), _STOP, _BATCHES): "the same, of batches that are cancelled",
    (("BatchStateMachineRole",), _LOOK + _STOP, ("states:execution:${AWS::StackName}-batch/inputs:*",)): (
        "what that machine starts for its inputs"
    ),
    (functions("StartWorkflow", "FinishWorkflow"), _LOOK, ("states:execution:*:run_*",)): (
        "executions of workflows, whose names begin as calls do"
    ),
}
WIDE_ACTIONS = {("NotifyKey", "kms:*"): "the account's administrators, or nobody could change the key any more"}

_RULES, _BUCKETS, _ALARMS = "events.amazonaws.com", "s3.amazonaws.com", "cloudwatch.amazonaws.com"
_SEND, _PUBLISH = ("sqs:SendMessage",), ("sns:Publish",)
_JOBS = ("IngestQueuePolicy", "IngestFifoQueuePolicy")
GIVEN_TO_OTHERS: Reasons = {
    ((_RULES,), _SEND, ("IngestQueuePolicy", "IngestDeadLetterQueuePolicy")): "rules of this stack that start runs",
    ((_RULES,), _SEND, ("UnheardEventsQueuePolicy",)): "rules of this stack, of what they could not hand over",
    ((_RULES, _BUCKETS), _SEND, _JOBS): "rules and buckets that a parameter lists",
    (('{"Ref": "IngestSenderArns"}',), _SEND, _JOBS): "roles and users of other accounts that a parameter lists",
    ((_RULES,), _PUBLISH, ("NotifyTopicPolicy",)): "the rule of this stack that tells of questions",
    ((_ALARMS,), _PUBLISH, ("AlarmTopicPolicy",)): "alarms of this account",
    ((_RULES, _ALARMS), ("kms:Decrypt", "kms:GenerateDataKey"), ("NotifyKey",)): "both write to topics with this key",
    (("iam::${AWS::AccountId}:root",), ("kms:*",), ("NotifyKey",)): WIDE_ACTIONS["NotifyKey", "kms:*"],
}
FROM_ANY_SOURCE = {"NotifyKey": "EventBridge does not say which rule it needs a key for; the topics' policies do that"}
ITSELF = {"AWS::SQS::QueuePolicy", "AWS::KMS::Key"}  # in whose policies * is the resource that has it
MANAGED_POLICIES = {
    "service-role/AWSLambdaBasicExecutionRole": "SAM gives it to each function, so that it can write its logs",
    "AWSXrayWriteOnlyAccess": "SAM gives it to each function that is traced; traces take no resource",
}
_LAMBDA = "lambda.amazonaws.com"  # takes no condition: functions are made with this role by whoever may pass it

# ---- what is asked

GRANTS = list(allowed())
IDS = [f"{each.resource}-{index}" for index, each in enumerate(GRANTS)]
TO_ROLES = [each for each in GRANTS if "Principal" not in each.statement]
OWN = [each for each in GRANTS if is_own_policy(each)]


@pytest.mark.parametrize("each", GRANTS, ids=IDS)
def test_statement_names_what_it_allows_and_to_whom(each: Allowed) -> None:
    assert not {"NotAction", "NotResource", "NotPrincipal"} & set(each.statement)
    assert "*" not in json.dumps(each.statement.get("Principal", ""))
    wide = {(each.resource, action) for action in listed(each.statement["Action"]) if "*" in action}
    assert wide <= set(WIDE_ACTIONS)


@pytest.mark.parametrize("each", GRANTS, ids=IDS)
def test_statement_names_its_resources_and_its_own_roles_or_has_a_reason_here(each: Allowed) -> None:
    assert to_be_reasoned(each) <= reasoned(WIDE_RESOURCES | GIVEN_TO_OTHERS)


def test_every_reason_is_still_needed() -> None:
    assert reasoned(WIDE_RESOURCES | GIVEN_TO_OTHERS) == set().union(*map(to_be_reasoned, GRANTS))
    assert set(WIDE_ACTIONS) <= {(each.resource, action) for each in OWN for action in listed(each.statement["Action"])}
    assert set(FROM_ANY_SOURCE) <= {each.resource for each in OWN}


@pytest.mark.parametrize("each", OWN, ids=[IDS[GRANTS.index(each)] for each in OWN])
def test_policy_of_a_resource_speaks_of_that_resource_alone_and_binds_services_to_a_source(each: Allowed) -> None:
    policy = resources()[each.resource]
    own = ["*"] if policy["Type"] in ITSELF else policy["Properties"]["Topics"]
    assert named(each.statement, "Resource") == own
    assert "Service" not in each.statement["Principal"] or is_bound(each.statement) or each.resource in FROM_ANY_SOURCE


def is_bound(statement: Json) -> bool:
    """Whether a service must say for whom it comes, and for one that is named here."""
    bounds = statement.get("Condition", {}).items()
    said = {key for operator, keys in bounds if not operator.endswith("IfExists") for key in keys}
    return bool(said & {"aws:SourceArn", "aws:SourceAccount"})


def with_statement(resource: str, statement: Json) -> Json:
    """The template with one more statement, in the policies of a role or in a resource's own."""
    template = copy.deepcopy(translated_template())
    properties = template["Resources"][resource]["Properties"]
    document: Json = properties.get("PolicyDocument") or properties.get("KeyPolicy") or {"Statement": []}
    document["Statement"].append({"Effect": "Allow", **statement})
    if "AssumeRolePolicyDocument" in properties:
        properties["Policies"].append({"PolicyName": "more", "PolicyDocument": document})
    return template


_OF_MODELS = "arn:${AWS::Partition}:secretsmanager:${AWS::Region}:${AWS::AccountId}:secret:stepagent/models/*"


@pytest.mark.parametrize(
    ("resource", "statement"),
    [  # what others have a reason for
        (
            "ToolCalculatorFunctionRole",
            {"Action": "secretsmanager:GetSecretValue", "Resource": {"Fn::Sub": _OF_MODELS}},
        ),
        ("ToolCalculatorFunctionRole", {"Action": "logs:DescribeLogGroups", "Resource": "*"}),
        ("ToolCalculatorFunctionRole", {"Action": "logs:DescribeLogGroups", "Resource": ["*", "arn:aws:logs:::one"]}),
        ("ToolCalculatorFunctionRole", {"Action": "s3:DeleteObject", "Resource": {"Fn::Sub": _PAYLOADS}}),
        ("RemindFunctionRole", {"Action": "s3:PutObject", "Resource": {"Fn::Sub": _PAYLOADS}}),
        ("RemindFunctionRole", {"Action": "dynamodb:GetItem", "Resource": "arn:aws:dynamodb:us-east-1:1:table/recor?"}),
        ("NotifyKey", {"Action": "kms:Decrypt", "Resource": "*", "Principal": {"Service": _BUCKETS}}),
        ("NotifyKey", {"Action": "kms:CreateGrant", "Resource": "*", "Principal": {"Service": _RULES}}),
        ("IngestQueuePolicy", {"Action": "sqs:ReceiveMessage", "Resource": "*", "Principal": {"Service": _RULES}}),
        ("IngestFifoQueuePolicy", {"Action": "sqs:SendMessage", "Resource": "*", "Principal": {"AWS": "123456789012"}}),
    ],
)
def test_grant_that_only_others_have_a_reason_for_is_refused(
    monkeypatch: pytest.MonkeyPatch, resource: str, statement: Json
) -> None:
    template = with_statement(resource, statement)
    monkeypatch.setattr(translated, "translated_template", lambda: template)
    refused = set().union(*map(to_be_reasoned, allowed())) - reasoned(WIDE_RESOURCES | GIVEN_TO_OTHERS)
    assert {grant.action for grant in refused} == {statement["Action"]}


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


# ---- queues, and what rules and schedules could not hand over

_NOTHING = {"Ref": "AWS::NoValue"}


def policy_of(queue: str) -> list[Json]:
    """The statements of a queue's policy: of two, one would be put in the place of the other."""
    [policy] = [each for _, each in of_type("AWS::SQS::QueuePolicy") if {"Ref": queue} in each["Queues"]]
    statements: list[Json] = policy["PolicyDocument"]["Statement"]
    return statements


def may_be_sent_by(queue: str) -> list[Json]:
    """The rules of this stack from which a queue takes events, each as its policy names it."""
    stated = [each for each in policy_of(queue) if each.get("Principal") == {"Service": "events.amazonaws.com"}]
    assert {each["Action"] for each in stated} <= {"sqs:SendMessage"}
    return [rule for each in stated for rule in each["Condition"]["ArnEquals"]["aws:SourceArn"]]


def arn_of(name: str) -> Json:
    """A resource's ARN, which is there where the resource is."""
    arn = {"Fn::GetAtt": [name, "Arn"]}
    condition = resources()[name].get("Condition")
    return {"Fn::If": [condition, arn, _NOTHING]} if condition else arn


def targets_of_rules() -> list[tuple[str, Json]]:
    return [(name, target) for name, rule in of_type("AWS::Events::Rule") for target in rule["Targets"]]


def queues_of(name: str, target: Json) -> set[str]:
    """The queues to which a rule or a schedule sends: where it is meant to, and what it could not hand over."""
    arns = (target["Arn"], target["DeadLetterConfig"]["Arn"])
    named = {arn["Fn::GetAtt"][0] for arn in arns if "Fn::GetAtt" in arn}
    return named & set(dict(of_type("AWS::SQS::Queue")))


@pytest.mark.parametrize("queue", dict(of_type("AWS::SQS::Queue")))
def test_queue_refuses_what_is_not_encrypted_on_its_way(queue: str) -> None:
    [denied] = [each for each in policy_of(queue) if each.get("Effect") == "Deny"]
    assert (denied["Principal"], denied["Action"], denied["Resource"]) == ("*", "sqs:*", "*")
    assert denied["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}


@pytest.mark.parametrize(
    ("name", "target"),
    [*targets_of_rules(), *((name, schedule["Target"]) for name, schedule in of_type("AWS::Scheduler::Schedule"))],
)
def test_event_that_cannot_be_handed_over_is_tried_again_and_kept_in_the_end(name: str, target: Json) -> None:
    assert set(target["RetryPolicy"]) == {"MaximumRetryAttempts", "MaximumEventAgeInSeconds"}
    kept_in = resources()[target["DeadLetterConfig"]["Arn"]["Fn::GetAtt"][0]]
    assert (kept_in["Type"], kept_in["Properties"].get("FifoQueue")) == (
        "AWS::SQS::Queue",
        None,
    )  # it must be a plain one
    assert kept_in["Properties"]["MessageRetentionPeriod"] == 14 * 86_400
    assert target["DeadLetterConfig"]["Arn"] != target["Arn"]


@pytest.mark.parametrize("queue", dict(of_type("AWS::SQS::Queue")))
def test_queue_takes_events_from_the_rules_that_send_to_it_and_from_no_other(queue: str) -> None:
    sending = [arn_of(name) for name, target in targets_of_rules() if queue in queues_of(name, target)]
    assert sorted(map(json.dumps, may_be_sent_by(queue))) == sorted(map(json.dumps, sending))


@pytest.mark.parametrize("name", dict(of_type("AWS::Scheduler::Schedule")))
def test_schedule_may_send_to_its_queues_and_nowhere_else(name: str) -> None:
    target = resources()[name]["Properties"]["Target"]
    role = target["RoleArn"]["Fn::GetAtt"][0]
    [statement] = [each.statement for each in TO_ROLES if each.resource == role]
    assert statement["Action"] == "sqs:SendMessage"
    assert statement["Resource"] == [target["Arn"], target["DeadLetterConfig"]["Arn"]]


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
