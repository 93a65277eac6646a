"""What the template watches: each metric of the dashboard and of the alarms is one that somebody writes, so named."""

import io
import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from samtranslator.yaml_helper import yaml_parse

from stepagent.errors import ModelBusy
from stepagent.runs import CallResult, Decision, StopReason
from stepagent.telemetry import NAMESPACE, CallEnd, count_end, count_reply, tell_call
from stepagent.turn_watch import TurnWatch
from stepagent.usage import Usage
from tests.builders import NOON, RUN_ID, a_call, a_run, said
from tests.functions import ROOT
from tests.log_capture import Series, captured_log, metrics
from tests.translated import resources

Json = dict[str, Any]

TEMPLATE: Json = yaml_parse((ROOT / "template.yaml").read_text())
RESOURCES: Json = TEMPLATE["Resources"]
ALARMS = {name: each["Properties"] for name, each in RESOURCES.items() if each["Type"] == "AWS::CloudWatch::Alarm"}
BODY: str = RESOURCES["Dashboard"]["Properties"]["DashboardBody"]["Fn::Sub"]
WIDGETS: list[Json] = json.loads(BODY)["widgets"]

# What AWS publishes of these services, by the dimensions that it is published under: their documentation's words.
PUBLISHED: dict[tuple[str, frozenset[str]], frozenset[str]] = {
    ("AWS/States", frozenset({"StateMachineArn"})): frozenset(
        {
            "ExecutionsStarted",
            "ExecutionsSucceeded",
            "ExecutionsFailed",
            "ExecutionsTimedOut",
            "ExecutionsAborted",
            "ExecutionThrottled",
            "ExecutionTime",
        }
    ),
    ("AWS/SQS", frozenset({"QueueName"})): frozenset(
        {
            "ApproximateNumberOfMessagesVisible",
            "ApproximateNumberOfMessagesNotVisible",
            "ApproximateAgeOfOldestMessage",
            "NumberOfMessagesSent",
        }
    ),
    ("AWS/Lambda", frozenset({"FunctionName"})): frozenset(
        {"Invocations", "Errors", "Throttles", "Duration", "ConcurrentExecutions"}
    ),
    ("AWS/ApiGateway", frozenset({"ApiName", "Stage"})): frozenset(
        {"Count", "4XXError", "5XXError", "Latency", "IntegrationLatency"}
    ),
    ("AWS/DynamoDB", frozenset({"TableName"})): frozenset({"ReadThrottleEvents", "WriteThrottleEvents"}),
}


class Metric(NamedTuple):
    """A metric as somebody asks for it, with the values of its dimensions."""

    namespace: str
    name: str
    dimensions: dict[str, Any]


def written(capsys: pytest.CaptureFixture[str]) -> list[Series]:
    """Everything that the code measures."""
    run, decision = a_run(), Decision(run_id=RUN_ID, turn=1, next="act")
    watch, unknown = TurnWatch(run, 1), Usage(cost_usd=None)
    reply = said("Hi")
    watch.heard(reply._replace(origin=reply.origin._replace(model="default", first_token_at=0)))
    with captured_log():
        watch.tell(decision, Usage())
        watch.tell(decision, unknown, ModelBusy("busy"))
        tell_call(run.key, a_call(), CallResult(text="", is_error=True, finished_at=NOON), CallEnd(1))
        count_end("helper", StopReason.FAILED)
        count_reply("delivered")
    return metrics(capsys)


def drawn() -> Iterator[Metric]:
    """The metrics of the dashboard, with what a dot stands for: the same as in the line before."""
    for widget in WIDGETS:
        before: list[Any] = []
        for entry in widget["properties"].get("metrics", []):
            if isinstance(entry[0], dict):
                yield searched(entry[0]["expression"])
                continue
            words = [each for each in entry if isinstance(each, str)]
            before = [old if new == "." else new for new, old in zip(words, before or words, strict=True)]
            yield Metric(before[0], before[1], dict(zip(before[2::2], before[3::2], strict=True)))


def searched(expression: str) -> Metric:
    """A search, as the metric that it looks for; dimensions that it leaves open have no value."""
    found = re.fullmatch(r"SEARCH\('\{([\w/,]+)\} (\w+)=\"([^\"]+)\" MetricName=\"(\w+)\"', '\w+', \d+\)", expression)
    assert found, expression
    namespace, *names = found[1].split(",")
    return Metric(namespace, found[4], {**dict.fromkeys(names), found[2]: found[3]})


def alarmed() -> Iterator[Metric]:
    for alarm in ALARMS.values():
        dimensions = {each["Name"]: each["Value"] for each in alarm["Dimensions"]}
        yield Metric(alarm["Namespace"], alarm["MetricName"], dimensions)


WATCHED = [*drawn(), *alarmed()]


@pytest.mark.parametrize("metric", [each for each in WATCHED if each.namespace == NAMESPACE], ids=str)
def test_metric_of_ours_is_one_that_the_code_writes(metric: Metric, capsys: pytest.CaptureFixture[str]) -> None:
    known = {(series.name, frozenset(dict(series.dimensions))) for series in written(capsys)}
    assert (metric.name, frozenset(metric.dimensions) - {"service"}) in known
    assert metric.dimensions["service"] in ("${AWS::StackName}", {"Ref": "AWS::StackName"})


@pytest.mark.parametrize("metric", [each for each in WATCHED if each.namespace != NAMESPACE], ids=str)
def test_metric_of_a_service_is_one_that_it_publishes(metric: Metric) -> None:
    assert metric.name in PUBLISHED[metric.namespace, frozenset(metric.dimensions)]


def test_every_metric_of_ours_is_watched_or_is_a_part_of_one_that_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert {series.name for series in written(capsys)} == {each.name for each in WATCHED if each.namespace == NAMESPACE}


def test_stack_is_the_service_by_whose_name_its_metrics_are_known() -> None:
    variables = TEMPLATE["Globals"]["Function"]["Environment"]["Variables"]
    assert variables["POWERTOOLS_SERVICE_NAME"] == {"Ref": "AWS::StackName"}


def test_dashboard_speaks_of_resources_that_there_are() -> None:
    named = {name.split(".")[0] for name in re.findall(r"\$\{([\w.]+)\}", BODY)}
    assert named
    assert named <= set(RESOURCES)


def test_widgets_do_not_cover_each_other_and_fill_their_rows() -> None:
    cells = [
        (x, y)
        for widget in WIDGETS
        for x in range(widget["x"], widget["x"] + widget["width"])
        for y in range(widget["y"], widget["y"] + widget["height"])
    ]
    assert len(cells) == len(set(cells)) == 24 * (max(y for _, y in cells) + 1)


@pytest.mark.parametrize("name", ALARMS)
def test_alarm_is_silent_without_data_and_tells_when_it_is_over(name: str) -> None:
    alarm = ALARMS[name]
    told = {"Fn::If": ["WritesAlarms", [{"Ref": "AlarmTopic"}], {"Ref": "AWS::NoValue"}]}
    assert alarm["TreatMissingData"] == "notBreaching"
    assert alarm["AlarmActions"] == alarm["OKActions"] == told
    assert alarm["AlarmDescription"].endswith(".")


def test_every_dead_letter_queue_has_its_alarm() -> None:
    dead = {name for name in RESOURCES if name.endswith("DeadLetterQueue")} | {"UnheardEventsQueue"}
    watched = [each for each in alarmed() if each.name == "ApproximateNumberOfMessagesVisible"]
    assert {each.dimensions["QueueName"]["Fn::GetAtt"][0] for each in watched} == dead


def test_alarms_are_told_in_an_encrypted_topic_to_which_nobody_else_publishes() -> None:
    assert RESOURCES["AlarmTopic"]["Properties"]["KmsMasterKeyId"] == {"Ref": "NotifyKey"}
    [allowed] = RESOURCES["AlarmTopicPolicy"]["Properties"]["PolicyDocument"]["Statement"]
    assert (allowed["Principal"], allowed["Action"]) == ({"Service": "cloudwatch.amazonaws.com"}, "sns:Publish")
    assert allowed["Condition"] == {"StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}}


def test_nobody_is_written_to_when_there_is_no_address() -> None:
    told = {name for name, resource in RESOURCES.items() if resource.get("Condition") == "WritesAlarms"}
    assert told == {"AlarmTopic", "AlarmTopicPolicy"}
    assert TEMPLATE["Parameters"]["AlarmEmail"]["Default"] == ""


@pytest.mark.parametrize("metric", ["ExecutionsFailed", "ExecutionThrottled"])
def test_runs_by_a_plan_are_watched_as_other_runs_are(metric: str) -> None:
    drawn_of = {each.dimensions["StateMachineArn"] for each in drawn() if each.name == metric}
    watched = {each.dimensions["StateMachineArn"]["Ref"] for each in alarmed() if each.name == metric}
    assert {f"${{{name}}}" for name in watched} <= drawn_of
    assert {"AgentStateMachine", "PlanStateMachine"} <= watched


@pytest.mark.parametrize("name", ALARMS)
def test_runbook_says_what_to_do_when_an_alarm_goes_off(name: str) -> None:
    runbook = io.StringIO((ROOT / "docs" / "operations.md").read_text())
    assert [line for line in runbook if f"`{name}`" in line]


# ---- traces


def of_types(*kinds: str) -> list[str]:
    return [name for name, each in resources().items() if each["Type"] in kinds]


@pytest.mark.parametrize("name", of_types("AWS::Lambda::Function"))
def test_function_is_traced(name: str) -> None:
    assert resources()[name]["Properties"]["TracingConfig"] == {"Mode": "Active"}


@pytest.mark.parametrize("name", of_types("AWS::StepFunctions::StateMachine"))
def test_state_machine_is_traced(name: str) -> None:
    assert resources()[name]["Properties"]["TracingConfiguration"] == {"Enabled": True}


@pytest.mark.parametrize("name", of_types("AWS::ApiGateway::Stage", "AWS::ApiGatewayV2::Stage"))
def test_stage_of_the_api_is_traced(name: str) -> None:
    assert resources()[name]["Properties"]["TracingEnabled"] is True


def test_traces_are_of_functions_state_machines_and_one_stage() -> None:
    stages = of_types("AWS::ApiGateway::Stage", "AWS::ApiGatewayV2::Stage")
    machines = of_types("AWS::StepFunctions::StateMachine")
    assert (len(stages), len(machines) >= 3, len(of_types("AWS::Lambda::Function")) >= 20) == (1, True, True)
