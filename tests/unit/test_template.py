"""The template's contract: who may do what, what is kept and for how long, and that its parts fit each other."""

import json
import re
from collections.abc import Iterator
from typing import Any, get_args

import pytest
from samtranslator.yaml_helper import yaml_parse

from stepagent.calls import GENERIC_FUNCTIONS
from stepagent.catalog import load_catalog
from stepagent.notifying import SOURCE, ToldOfQuestion, detail_of
from stepagent.replies.delivery import DELAYS_S
from stepagent.replies.places import OWN_PREFIX
from stepagent.settings import Settings
from stepagent.store.items import KEYS
from tests.builders import a_run, an_interaction
from tests.definition import PATH, PLAN_PATH, all_states
from tests.functions import ROOT
from tests.permissions import actions_of_code, settings_of_code

Json = dict[str, Any]

TEMPLATE: Json = yaml_parse((ROOT / "template.yaml").read_text())
RESOURCES: Json = TEMPLATE["Resources"]
GLOBALS: Json = TEMPLATE["Globals"]["Function"]
FUNCTIONS = {name: r["Properties"] for name, r in RESOURCES.items() if r["Type"] == "AWS::Serverless::Function"}
TABLES = {name: r["Properties"] for name, r in RESOURCES.items() if r["Type"] == "AWS::DynamoDB::Table"}
MACHINE: Json = RESOURCES["AgentStateMachine"]["Properties"]
PLAN_MACHINE: Json = RESOURCES["PlanStateMachine"]["Properties"]
LAMBDA_TOOLS = {tool.target: tool for tool in load_catalog(ROOT / "catalog").tools.values() if tool.kind == "lambda"}
TOOL_FUNCTIONS = {name: properties for name, properties in FUNCTIONS.items() if name.startswith("Tool")}

ARN = "arn:${{AWS::Partition}}:{}:${{AWS::Region}}:${{AWS::AccountId}}"

# Actions that only the names in its code lead to, each with why it never comes to them.
NEVER_COME_TO = {
    "IngestFunction": {"states:SendTaskSuccess"},  # a job answers no question, and none is the run of a called agent
    "RecordCallFailureFunction": {"sqs:SendMessage"},  # it ends runs of called agents alone, which promise no reply
    "StartWorkflowFunction": {"sqs:SendMessage"},  # the same
}
# What the policy on both tables grants to whoever uses most of it.
SHARED = {
    f"dynamodb:{action} {table}"
    for action, table in [
        ("GetItem", "JournalTable"),
        ("PutItem", "JournalTable"),
        ("PutItem", "RecordTable"),
        ("Query", "RecordTable"),
    ]
}
# Actions that Lambda does with a function's role, not its code.
_RECEIVED = {"sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"}
DONE_FOR_IT = {"IngestFunction": _RECEIVED, "DeliverReplyFunction": _RECEIVED}
HAVE_DEFAULTS = {"HTTP_ALLOW_PRIVATE"}  # for tests and machines at home


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def branches_of(statement: Json) -> list[Json]:
    """A statement, or those of which a condition chooses one or none."""
    return [each for each in statement["Fn::If"][1:] if "Effect" in each] if "Fn::If" in statement else [statement]


def statements(value: Any) -> Iterator[Json]:
    """Every policy statement in the template that allows something to this stack's own roles."""
    if isinstance(value, dict):
        for statement in listed(value.get("Statement", [])):
            yield from (each for each in branches_of(statement) if "Principal" not in each)
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from statements(inner)


def actions_of(function: str) -> set[str]:
    return {action for statement in statements(FUNCTIONS[function]) for action in listed(statement["Action"])}


def invoked_by_role() -> set[str]:
    """The logical ids of the functions that the state machine's role may invoke."""
    role = RESOURCES["AgentStateMachineRole"]["Properties"]
    [invoking] = [s for s in statements(role) if listed(s["Action"]) == ["lambda:InvokeFunction"]]
    return {function_of(resource) for resource in invoking["Resource"]}


def function_of(target: Json) -> str:
    """The logical id of the function that is meant, whether or not it is started from snapshots."""
    match target:
        case {"Fn::If": ["StartsFromSnapshots", {"Ref": alias}, {"Fn::GetAtt": [name, "Arn"]}]}:
            assert alias == f"{name}.Alias"
            return str(name)
        case _:
            name, attribute = target["Fn::GetAtt"]
            assert attribute == "Arn"
            return str(name)


def test_substitutions_are_those_that_the_definition_names() -> None:
    named = set(re.findall(r"\$\{(\w+)\}", PATH.read_text()))
    assert named == set(MACHINE["DefinitionSubstitutions"])


def test_plan_has_the_functions_of_the_loop_and_may_invoke_no_other() -> None:
    named = set(re.findall(r"\$\{(\w+)\}", PLAN_PATH.read_text()))
    substitutions = PLAN_MACHINE["DefinitionSubstitutions"]
    assert substitutions == {name: MACHINE["DefinitionSubstitutions"][name] for name in named}
    role = RESOURCES["PlanStateMachineRole"]["Properties"]
    [invoking] = [s for s in statements(role) if listed(s["Action"]) == ["lambda:InvokeFunction"]]
    assert {function_of(resource) for resource in invoking["Resource"]} == {n.removesuffix("Arn") for n in named}


def test_runs_are_started_in_either_machine_and_think_starts_plans_alone() -> None:
    starting = {name: _starts(name) for name in FUNCTIONS if _starts(name)}
    assert starting.pop("ThinkFunction") == {"plan"}
    of_runs = [found - {"batch"} for found in starting.values() if found != {"batch"}]
    assert all(found == {"agent", "plan"} for found in of_runs)


def _starts(function: str) -> set[str]:
    """The state machines of which a function may start executions."""
    found = [s for s in statements(FUNCTIONS[function]) if "states:StartExecution" in listed(s["Action"])]
    text = json.dumps([statement["Resource"] for statement in found])
    return {name for name in ("agent", "plan", "batch") if f"-{name}" in text or f"{name.title()}StateMachine" in text}


def test_substitutions_stand_for_functions_and_the_prefix_of_tools() -> None:
    arns = {name: value for name, value in MACHINE["DefinitionSubstitutions"].items() if name.endswith("Arn")}
    assert {name: function_of(value) for name, value in arns.items()} == {
        name: name.removesuffix("Arn") for name in arns
    }


def test_role_may_invoke_what_the_definition_invokes_and_the_tools_and_nothing_else() -> None:
    named = {name for state in all_states().values() for name in re.findall(r"\$\{(\w+)Arn\}", json.dumps(state))}
    assert invoked_by_role() == named | set(TOOL_FUNCTIONS)


@pytest.mark.parametrize(
    ("policy", "action", "parameter"),
    [
        ("InvokeFunctionsPolicy", "lambda:InvokeFunction", "ExternalFunctionArns"),
        ("StartWorkflowsPolicy", "states:StartExecution", "WorkflowArns"),
    ],
)
def test_functions_and_workflows_of_others_are_those_that_a_parameter_lists(
    policy: str, action: str, parameter: str
) -> None:
    (statement,) = statements(RESOURCES[policy])
    assert (statement["Action"], statement["Resource"]) == (action, {"Ref": parameter})


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_writes_its_policies_out_as_statements(name: str) -> None:
    assert "Role" not in FUNCTIONS[name]
    assert all(set(policy) == {"Statement"} for policy in FUNCTIONS[name].get("Policies", []))


def secrets_of(name: str) -> set[str]:
    """The secrets that a resource lets its roles read, by what stands behind `secret:`."""
    found = [s for s in statements(RESOURCES[name]) if "secretsmanager:GetSecretValue" in listed(s["Action"])]
    resources = [json.dumps(resource) for statement in found for resource in listed(statement["Resource"])]
    return {(re.findall(r"secret:([^\"]+)", resource) or [resource])[0] for resource in resources}


def test_keys_of_models_are_read_by_think_alone_and_secrets_of_tools_by_what_calls_their_servers() -> None:
    readers = {name: secrets for name in RESOURCES if (secrets := secrets_of(name))}
    models = readers.pop("ReadModelKeyPolicy")
    assert "stepagent/models/*" in models
    assert RESOURCES["ReadModelKeyPolicy"]["Properties"]["Roles"] == [{"Ref": "ThinkFunctionRole"}]
    assert json.loads(readers.pop("DeliverReplyFunction").pop()) == {"Ref": "WebhookSecret"}
    assert set(readers) == {"ToolHttpFunction", "ToolMcpFunction"}
    assert set().union(*readers.values()) == {"stepagent/tools/*"}


def test_executions_are_started_by_requests_jobs_calls_of_agents_and_where_one_was_lost_or_ends_for_another() -> None:
    assert {name for name in FUNCTIONS if "states:StartExecution" in actions_of(name)} == {
        "ApiFunction",
        "FinalizeFunction",
        "FinishBatchFunction",
        "IngestFunction",
        "RunInputFunction",
        "StartWorkflowFunction",
        "StreamFunction",
        "ThinkFunction",  # where a model chooses to work by a plan
    }


def granted(function: str) -> set[str]:
    """What a function may do: by its own policies, and by those that some deployments add to its role."""
    added = [
        policy["Properties"]
        for policy in RESOURCES.values()
        if policy["Type"] == "AWS::IAM::Policy" and {"Ref": f"{function}Role"} in policy["Properties"]["Roles"]
    ]
    return {
        each
        for statement in (*statements(FUNCTIONS[function]), *statements(added))
        for action in listed(statement["Action"])
        for each in _on_tables(action, statement)
    }


def _on_tables(action: str, statement: Json) -> list[str]:
    """An action on tables once for each of them."""
    if not action.startswith("dynamodb:"):
        return [action]
    return [f"{action} {resource['Fn::GetAtt'][0]}" for resource in listed(statement["Resource"])]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_may_do_what_its_code_can_come_to_and_nothing_else(name: str) -> None:
    code = actions_of_code(ROOT / FUNCTIONS[name]["CodeUri"]) | DONE_FOR_IT.get(name, set())
    allowed = granted(name) | NEVER_COME_TO.get(name, set())
    assert (code - allowed, allowed - code - SHARED) == (set(), set())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_has_the_settings_that_its_code_reads(name: str) -> None:
    given = {**GLOBALS["Environment"]["Variables"], **FUNCTIONS[name].get("Environment", {}).get("Variables", {})}
    needed = {
        str(Settings.model_fields[field].validation_alias)
        for field in settings_of_code(ROOT / FUNCTIONS[name]["CodeUri"])
    }
    assert needed - HAVE_DEFAULTS <= set(given)


def test_objects_that_functions_read_and_write_are_the_records_alone() -> None:
    objects = {
        json.dumps(resource)
        for policy in FUNCTIONS.values()
        for statement in statements(policy)
        if "s3:GetObject" in listed(statement["Action"])
        for resource in listed(statement["Resource"])
        if resource != {"Fn::Sub": "${InboxBucket.Arn}/*"}  # the texts of the function that starts runs
    }
    assert objects == {
        json.dumps({"Fn::Sub": f"${{PayloadBucket.Arn}}/{prefix}/*"})
        for prefix in ("payloads", "results", "batches/inputs", "batches/results")
    }


def test_nobody_may_delete_records() -> None:
    everything = {action for name in FUNCTIONS for action in actions_of(name)}
    assert [action for action in everything if "Delete" in action or "Scan" in action] == ["sqs:DeleteMessage"]


def test_record_forgets_idempotency_keys_entries_of_lists_and_counts_of_keys_alone() -> None:
    ttl = RESOURCES["RecordTable"]["Properties"]["TimeToLiveSpecification"]
    assert ttl == {"AttributeName": "forget_at", "Enabled": True}
    library = ROOT / "layers" / "runtime" / "python" / "stepagent"
    users = {path.name for path in library.rglob("*.py") if "forget_at" in path.read_text()}
    assert users == {"idempotency.py", "questions.py", "keys.py"}


def test_execution_data_stays_out_of_the_logs() -> None:
    assert MACHINE["Logging"]["IncludeExecutionData"] is False


@pytest.mark.parametrize("name", [name for name, r in RESOURCES.items() if r["Type"] == "AWS::Logs::LogGroup"])
def test_log_group_forgets_after_a_time(name: str) -> None:
    assert RESOURCES[name]["Properties"]["RetentionInDays"] == {"Ref": "LogDays"}


def test_logs_of_functions_are_forgotten_after_a_time() -> None:
    groups = json.dumps([r for r in RESOURCES.values() if r["Type"] == "AWS::Logs::LogGroup"])
    assert "LogGroup" in GLOBALS["LoggingConfig"] or all(name in groups for name in FUNCTIONS)


@pytest.mark.parametrize("name", TABLES)
def test_table_is_encrypted_and_paid_by_request(name: str) -> None:
    assert TABLES[name]["SSESpecification"] == {"SSEEnabled": True}
    assert TABLES[name]["BillingMode"] == "PAY_PER_REQUEST"


def test_record_survives_when_the_stack_is_deleted() -> None:
    for name in ("RecordTable", "PayloadBucket"):
        assert (RESOURCES[name]["DeletionPolicy"], RESOURCES[name]["UpdateReplacePolicy"]) == ("Retain", "Retain")
    assert TABLES["RecordTable"]["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}


def test_bucket_is_closed_to_the_public() -> None:
    assert all(RESOURCES["PayloadBucket"]["Properties"]["PublicAccessBlockConfiguration"].values())


def test_every_lambda_tool_of_the_catalog_has_its_function() -> None:
    names = {properties["FunctionName"]["Fn::Sub"] for properties in TOOL_FUNCTIONS.values()}
    assert names == {f"${{AWS::StackName}}-{target}" for target in {*LAMBDA_TOOLS, *GENERIC_FUNCTIONS.values()}}
    assert MACHINE["DefinitionSubstitutions"]["ToolFunctionPrefix"] == {"Fn::Sub": "${AWS::StackName}-"}


@pytest.mark.parametrize("target", LAMBDA_TOOLS)
def test_tools_function_ends_when_the_tool_must(target: str) -> None:
    [properties] = [p for p in TOOL_FUNCTIONS.values() if p["FunctionName"]["Fn::Sub"].endswith(f"-{target}")]
    assert LAMBDA_TOOLS[target].timeout_s == properties.get("Timeout", GLOBALS["Timeout"])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_stands_where_the_template_says(name: str) -> None:
    folder = ROOT / FUNCTIONS[name]["CodeUri"]
    handler = FUNCTIONS[name].get("Handler", GLOBALS["Handler"])
    if handler.endswith(".sh"):
        assert (folder / handler).is_file()
    else:
        module, _, function = handler.partition(".")
        assert re.search(rf"^(def {function}\(|{function} = )", (folder / f"{module}.py").read_text(), re.MULTILINE)


def test_every_folder_of_functions_is_deployed() -> None:
    folders = {f"functions/{path.parent.name}" for path in (ROOT / "functions").glob("*/app.py")}
    assert folders == {properties["CodeUri"] for properties in FUNCTIONS.values()}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_is_named_after_its_folder(name: str) -> None:
    words = FUNCTIONS[name]["CodeUri"].removeprefix("functions/").split("_")
    assert name == "".join(word.capitalize() for word in words) + "Function"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_runs_on_the_runtime_of_the_layer(name: str) -> None:
    assert not {"Runtime", "Architectures"} & set(FUNCTIONS[name])
    assert (GLOBALS["Runtime"], GLOBALS["Architectures"]) == ("python3.13", ["arm64"])
    layer = RESOURCES["RuntimeLayer"]["Properties"]
    assert (layer["CompatibleRuntimes"], layer["CompatibleArchitectures"]) == (["python3.13"], ["arm64"])


@pytest.mark.parametrize("name", [name for name, p in FUNCTIONS.items() if "CATALOG_DIR" in json.dumps(p)])
def test_function_has_the_catalog_when_it_reads_it(name: str) -> None:
    assert {"Ref": "CatalogLayer"} in FUNCTIONS[name]["Layers"]


def test_death_of_an_execution_reaches_finalize() -> None:
    rules = [e for e in FUNCTIONS["FinalizeFunction"]["Events"].values() if e["Type"] == "EventBridgeRule"]
    [detail] = [rule["Properties"]["Pattern"]["detail"] for rule in rules]
    assert set(detail["status"]) == {"FAILED", "TIMED_OUT", "ABORTED"}
    assert detail["stateMachineArn"] == [{"Ref": "AgentStateMachine"}, {"Ref": "PlanStateMachine"}]


def test_state_waits_longer_than_its_function_may_run() -> None:
    for path, state, function in [
        (PATH, "Think", "Think"),
        (PATH, "RecordFailure", "Finalize"),
        (PATH, "RecordCallFailure", "RecordCallFailure"),
        *((PLAN_PATH, state, "Think") for state in ("Plan", "Review", "Answer")),
        *((PLAN_PATH, state, "RecordCallFailure") for state in ("RecordNoAnswer", "RecordStepFailure")),
        (PLAN_PATH, "RecordFailure", "Finalize"),
    ]:
        limit = FUNCTIONS[f"{function}Function"].get("Timeout", GLOBALS["Timeout"])
        assert all_states(path)[state]["TimeoutSeconds"] > limit


def test_no_parameter_takes_a_secret() -> None:
    secrets = [name for name in TEMPLATE["Parameters"] if re.search("key|token|password|secret", name, re.IGNORECASE)]
    assert all(name.endswith(("Arn", "Hashes")) for name in secrets)


# ---- questions to people


def test_events_of_questions_leave_for_the_one_bus_and_as_this_source_alone() -> None:
    puts = [s for s in statements(RESOURCES) if "events:PutEvents" in listed(s["Action"])]
    assert {json.dumps(statement["Resource"]) for statement in puts} == {
        json.dumps({"Fn::Sub": f"{ARN.format('events')}:event-bus/${{EventBusName}}"})
    }
    assert all(s["Condition"] == {"ForAllValues:StringEquals": {"events:source": ["stepagent"]}} for s in puts)
    assert GLOBALS["Environment"]["Variables"]["EVENT_BUS_NAME"] == {"Ref": "EventBusName"}
    assert TEMPLATE["Parameters"]["EventBusName"]["Default"] == "default"


def test_schedules_are_made_by_ask_in_the_stacks_group_alone() -> None:
    assert {name for name in FUNCTIONS if "scheduler:CreateSchedule" in actions_of(name)} == {"AskFunction"}
    [planning] = [s for s in statements(FUNCTIONS["AskFunction"]) if s["Action"] == "scheduler:CreateSchedule"]
    assert planning["Resource"] == {"Fn::Sub": f"{ARN.format('scheduler')}:schedule/${{ReminderGroup}}/*"}
    assert FUNCTIONS["AskFunction"]["Environment"]["Variables"]["REMINDER_GROUP"] == {"Ref": "ReminderGroup"}


def test_one_role_is_passed_to_the_scheduler_alone() -> None:
    passing = [s for s in statements(RESOURCES) if "iam:PassRole" in listed(s["Action"])]
    assert passing == [
        {
            "Effect": "Allow",
            "Action": "iam:PassRole",
            "Resource": {"Fn::GetAtt": ["RemindRole", "Arn"]},
            "Condition": {"StringEquals": {"iam:PassedToService": "scheduler.amazonaws.com"}},
        }
    ]


def test_schedules_of_the_group_may_invoke_remind_or_lay_aside_what_it_did_not_get_and_nothing_else() -> None:
    role = RESOURCES["RemindRole"]["Properties"]
    [trust] = role["AssumeRolePolicyDocument"]["Statement"]
    assert trust["Principal"] == {"Service": "scheduler.amazonaws.com"}
    assert trust["Condition"]["StringEquals"] == {
        "aws:SourceAccount": {"Ref": "AWS::AccountId"},
        "aws:SourceArn": {"Fn::GetAtt": ["ReminderGroup", "Arn"]},
    }
    assert [(s["Action"], s["Resource"]) for s in statements(role["Policies"])] == [
        ("lambda:InvokeFunction", {"Fn::GetAtt": ["RemindFunction", "Arn"]}),
        ("sqs:SendMessage", {"Fn::GetAtt": ["UnheardEventsQueue", "Arn"]}),
    ]


def test_nothing_of_the_sample_is_made_when_there_is_no_address() -> None:
    sample = {name for name, resource in RESOURCES.items() if resource.get("Condition") == "Notifies"}
    assert sample == {"QuestionWaits", "NotifyTopic", "NotifyTopicPolicy"}
    assert RESOURCES["NotifyKey"]["Condition"] == "WritesEmails"
    assert TEMPLATE["Conditions"]["Notifies"] == {"Fn::Not": [{"Fn::Equals": [{"Ref": "NotifyEmail"}, ""]}]}
    assert TEMPLATE["Parameters"]["NotifyEmail"]["Default"] == ""


def test_topic_is_encrypted_and_only_the_rule_publishes_to_it() -> None:
    assert RESOURCES["NotifyTopic"]["Properties"]["KmsMasterKeyId"] == {"Ref": "NotifyKey"}
    [allowed] = RESOURCES["NotifyTopicPolicy"]["Properties"]["PolicyDocument"]["Statement"]
    assert allowed["Principal"] == {"Service": "events.amazonaws.com"}
    assert allowed["Condition"] == {"ArnEquals": {"aws:SourceArn": {"Fn::GetAtt": ["QuestionWaits", "Arn"]}}}


def test_rule_hears_what_the_code_says() -> None:
    pattern = RESOURCES["QuestionWaits"]["Properties"]["EventPattern"]
    assert pattern["source"] == [SOURCE]
    assert set(pattern["detail-type"]) < set(get_args(ToldOfQuestion))


def test_text_of_the_sample_is_made_of_what_events_have() -> None:
    [target] = RESOURCES["QuestionWaits"]["Properties"]["Targets"]
    paths = target["InputTransformer"]["InputPathsMap"]
    template = target["InputTransformer"]["InputTemplate"]["Fn::Sub"]
    assert set(re.findall(r"<(\w+)>", template)) == set(paths)
    assert all(line[0] == line[-1] == '"' and line.count('"') == 2 for line in template.splitlines())
    detail = detail_of(an_interaction(), a_run())
    assert {path.removeprefix("$.detail.") for path in paths.values()} <= {*detail, "$.detail-type"}


# ---- who may call


def test_authorizer_reads_keys_alone_and_never_what_people_said() -> None:
    [reading] = statements(FUNCTIONS["AuthorizeFunction"])
    assert reading["Condition"] == {"ForAllValues:StringEquals": {"dynamodb:LeadingKeys": [KEYS]}}


def test_every_route_asks_the_authorizer() -> None:
    assert RESOURCES["Api"]["Properties"]["Auth"]["DefaultAuthorizer"] == "BearerKey"
    events = [event for properties in FUNCTIONS.values() for event in properties.get("Events", {}).values()]
    assert [event for event in events if event["Type"] == "Api" and "Auth" in event["Properties"]] == []


def test_revoked_key_is_refused_after_a_minute_at_most() -> None:
    authorizer = RESOURCES["Api"]["Properties"]["Auth"]["Authorizers"]["BearerKey"]
    assert authorizer["Identity"] == {"Header": "Authorization", "ReauthorizeEvery": 60}


def test_requests_count_for_whom_the_authorizer_says_and_preflights_for_nobody() -> None:
    api = RESOURCES["Api"]["Properties"]
    assert (api["ApiKeySourceType"], api["Auth"]["ApiKeyRequired"]) == ("AUTHORIZER", True)
    assert api["Auth"]["AddApiKeyRequiredToCorsPreflight"] is False


@pytest.mark.parametrize("plan", ["ClientUsagePlan", "SharedUsagePlan"])
def test_usage_plan_holds_for_the_stage_of_this_api(plan: str) -> None:
    stages = [{"ApiId": {"Ref": "Api"}, "Stage": {"Ref": "Api.Stage"}}]
    assert RESOURCES[plan]["Properties"]["ApiStages"] == stages


def test_each_key_is_throttled_alone_and_those_that_share_a_plan_by_the_stage() -> None:
    limits = {"RateLimit": {"Ref": "ClientRateLimit"}, "BurstLimit": {"Ref": "ClientBurstLimit"}}
    assert RESOURCES["ClientUsagePlan"]["Properties"]["Throttle"] == limits
    assert "Throttle" not in RESOURCES["SharedUsagePlan"]["Properties"]


def test_authorizer_names_the_place_that_the_template_made() -> None:
    value = RESOURCES["SharedUsageKey"]["Properties"]["Value"]
    assert FUNCTIONS["AuthorizeFunction"]["Environment"]["Variables"]["SHARED_USAGE_KEY"] == value
    link = {"KeyId": {"Ref": "SharedUsageKey"}, "KeyType": "API_KEY", "UsagePlanId": {"Ref": "SharedUsagePlan"}}
    assert RESOURCES["SharedUsagePlanKey"]["Properties"] == link


GATEWAY: Json = RESOURCES["Api"]["Properties"]["GatewayResponses"]


@pytest.mark.parametrize("kind", GATEWAY)
def test_refusal_of_the_gateway_has_the_shape_that_openai_clients_read(kind: str) -> None:
    body = GATEWAY[kind]["ResponseTemplates"]["application/json"].replace("$context.error.messageString", '"Why."')
    assert set(json.loads(body)["error"]) == {"message", "type", "param", "code"}


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("UNAUTHORIZED", 401),
        ("ACCESS_DENIED", 401),
        ("MISSING_AUTHENTICATION_TOKEN", 404),
        ("THROTTLED", 429),
        ("QUOTA_EXCEEDED", 429),
        ("INVALID_API_KEY", 503),
    ],
)
def test_refusal_of_the_gateway_has_its_status(kind: str, status: int) -> None:
    assert GATEWAY[kind]["StatusCode"] == status


def test_tokens_are_not_taken_without_an_audience() -> None:
    rule = TEMPLATE["Rules"]["TokensAreMeantForUs"]
    assert rule["RuleCondition"] == {"Fn::Not": [{"Fn::Equals": [{"Ref": "JwtIssuer"}, ""]}]}
    assert rule["Assertions"][0]["Assert"] == {"Fn::Not": [{"Fn::Equals": [{"Ref": "JwtAudience"}, ""]}]}


# ---- results of runs


def _may_send_to(name: str, queue: str) -> bool:
    sending = [s for s in statements(FUNCTIONS[name]) if "sqs:SendMessage" in listed(s["Action"])]
    return any({"Fn::GetAtt": [queue, "Arn"]} in listed(s["Resource"]) for s in sending)


def test_whoever_ends_runs_may_promise_replies_and_nobody_else() -> None:
    ending = {name for name in FUNCTIONS if "reply_queue_url" in settings_of_code(ROOT / FUNCTIONS[name]["CodeUri"])}
    ending -= {name for name, never in NEVER_COME_TO.items() if "sqs:SendMessage" in never}
    ending -= {"DeliverReplyFunction"}  # it takes from there
    assert {name for name in FUNCTIONS if _may_send_to(name, "ReplyQueue")} == ending


@pytest.mark.parametrize(
    ("policy", "action", "parameter"),
    [
        ("ReplyToQueuesPolicy", "sqs:SendMessage", "ReplyQueueArns"),
        ("ReplyToObjectsPolicy", "s3:PutObject", "ReplyObjectArns"),
    ],
)
def test_places_of_others_are_those_that_a_parameter_lists(policy: str, action: str, parameter: str) -> None:
    (statement,) = statements(RESOURCES[policy])
    assert (statement["Action"], statement["Resource"]) == (action, {"Ref": parameter})
    assert RESOURCES[policy]["Properties"]["Roles"] == [{"Ref": "DeliverReplyFunctionRole"}]
    assert TEMPLATE["Parameters"][parameter]["Default"] == ""


def test_results_are_written_below_replies_alone() -> None:
    [writing] = [s for s in statements(FUNCTIONS["DeliverReplyFunction"]) if "s3:PutObject" in listed(s["Action"])]
    assert writing["Resource"] == {"Fn::Sub": f"${{PayloadBucket.Arn}}/{OWN_PREFIX}*"}


@pytest.mark.parametrize(
    ("parameter", "good", "bad"),
    [
        ("ReplyQueueArns", "arn:aws:sqs:us-east-1:123456789012:results.fifo", "arn:aws:sqs:us-east-1:123456789012:*"),
        ("ReplyObjectArns", "arn:aws:s3:::results/agents/*", "arn:aws:s3:::results*"),
        ("ReplyObjectArns", "arn:aws:s3:::results/*", "*"),
    ],
)
def test_places_are_listed_without_wildcards_beyond_a_prefix(parameter: str, good: str, bad: str) -> None:
    pattern = TEMPLATE["Parameters"][parameter]["AllowedPattern"]
    assert [bool(re.fullmatch(pattern, each)) for each in (good, "", bad)] == [True, True, False]


def test_webhooks_are_told_of_by_https_alone() -> None:
    pattern = TEMPLATE["Parameters"]["WebhookAllowedHosts"]["AllowedPattern"]
    assert re.fullmatch(pattern, "hooks.example.com,*.example.org:8443")
    assert not re.fullmatch(pattern, "http://hooks.example.com")


def test_queue_of_replies_outlives_the_tries_and_lays_aside_only_behind_them() -> None:
    queue, limit_s = RESOURCES["ReplyQueue"]["Properties"], FUNCTIONS["DeliverReplyFunction"]["Timeout"]
    assert queue["VisibilityTimeout"] >= 6 * limit_s
    assert queue["MessageRetentionPeriod"] > 2 * sum(DELAYS_S)
    assert queue["RedrivePolicy"]["maxReceiveCount"] > len(DELAYS_S) + 1
    assert queue["RedrivePolicy"]["deadLetterTargetArn"] == {"Fn::GetAtt": ["ReplyDeadLetterQueue", "Arn"]}
    assert RESOURCES["ReplyDeadLetterQueue"]["Properties"]["MessageRetentionPeriod"] == 14 * 86_400
    assert RESOURCES["DeliverReplyMapping"]["Properties"]["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
