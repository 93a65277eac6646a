"""The corrections to the emulator that the loop leans on, each seen from outside, on a small stack of its own."""

import json
import socket
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from ministack.core.lambda_runtime import ProvidedWorker, kill_workers

from local import emulator_host
from local.build import build
from local.deploy import Stack, client, deploy
from local.emulator import Emulator, PortTaken, find, start, stop
from local.turns import MOST, MOST_OF_ONE
from tests.processes import linux_only, processes_of

TEMPLATE = """
Transform: AWS::Serverless-2016-10-31
Resources:
  WorkFunction:
    Type: AWS::Serverless::Function
    Properties: {Runtime: python3.13, Handler: app.handler, CodeUri: functions/worker, Timeout: 10}
  SecondFunction:
    Type: AWS::Serverless::Function
    Properties: {Runtime: python3.13, Handler: app.handler, CodeUri: functions/worker, Timeout: 10}
  ThirdFunction:
    Type: AWS::Serverless::Function
    Properties: {Runtime: python3.13, Handler: app.handler, CodeUri: functions/worker, Timeout: 10}
  ServerFunction:
    Type: AWS::Serverless::Function
    Properties:
      {Runtime: python3.13, Handler: run.sh, CodeUri: functions/server,
       Environment: {Variables: {AWS_LAMBDA_EXEC_WRAPPER: /opt/bootstrap}}}
  EndsQueue: {Type: AWS::SQS::Queue}
  EndsRule:
    Type: AWS::Events::Rule
    Properties:
      EventPattern: {source: [aws.states], detail: {status: [FAILED, ABORTED]}}
      Targets: [{Id: queue, Arn: !GetAtt EndsQueue.Arn}]
  Machine:
    Type: AWS::Serverless::StateMachine
    Properties:
      DefinitionUri: machine.asl.yaml
      DefinitionSubstitutions: {WorkArn: !GetAtt WorkFunction.Arn}
      Role: arn:aws:iam::000000000000:role/any
Outputs:
  StateMachineArn: {Value: !Ref Machine}
  PlanStateMachineArn: {Value: none}
  RecordTable: {Value: none}
  JournalTable: {Value: none}
  Bucket: {Value: none}
  ApiId: {Value: none}
  Server: {Value: !GetAtt ServerFunction.Arn}
"""

MACHINE = """
QueryLanguage: JSONata
StartAt: Act
States:
  Act:
    Type: Map
    Items: '{% $states.input.calls %}'
    MaxConcurrency: '{% $states.input.at_once %}'
    ItemProcessor:
      StartAt: Route
      States:
        Route:
          Type: Choice
          Choices: [{Condition: '{% $states.input.kind = "ask" %}', Next: Ask}]
          Default: Run
        Run: &task
          Type: Task
          Resource: arn:aws:states:::lambda:invoke
          Arguments: {FunctionName: '${WorkArn}', Payload: '{% $states.input %}'}
          Output: '{% $states.result.Payload %}'
          TimeoutSeconds: '{% $states.input.timeout_s %}'
          Catch: [{ErrorEquals: [States.ALL], Output: '{% $states.errorOutput %}', Next: Caught}]
          End: true
        Ask:
          <<: *task
          Resource: arn:aws:states:::lambda:invoke.waitForTaskToken
          Arguments: {FunctionName: '${WorkArn}', Payload: '{% $states.input %}'}
          Output: {}
        Caught: {Type: Pass, End: true}
    End: true
"""

WORK = """
import json, os, pathlib, time

class ToolBroke(Exception):
    pass

def handler(event, context):
    started = time.time()
    time.sleep(event.get("sleep_s", 0))
    if "leaves" in event:
        pathlib.Path(event["leaves"]).touch()
    if event.get("asks"):
        import boto3
        boto3.client("lambda").invoke(FunctionName=os.environ["AWS_LAMBDA_FUNCTION_NAME"], Payload=json.dumps({}))
    if event.get("breaks"):
        raise ToolBroke("as asked")
    return {"pid": os.getpid(), "started": started, "ended": time.time()}
"""


class Machine:
    """The state machine of the small stack."""

    def __init__(self, emulator: Emulator, stack: Stack) -> None:
        self.steps = client(emulator, "stepfunctions")
        self.queue = client(emulator, "sqs")
        self.ends_url = self.queue.list_queues()["QueueUrls"][0]
        self.stack = stack

    def begin(self, *calls: dict[str, Any], at_once: int = 40) -> str:
        defaults = {"kind": "tool", "timeout_s": 5}
        given = json.dumps({"at_once": at_once, "calls": [{**defaults, **call} for call in calls]})
        started = self.steps.start_execution(
            stateMachineArn=self.stack.state_machine_arn, name=uuid.uuid4().hex, input=given
        )
        return str(started["executionArn"])

    def end(self, execution: str) -> dict[str, Any]:
        while (found := self.steps.describe_execution(executionArn=execution))["status"] == "RUNNING":
            time.sleep(0.01)
        return dict(found)

    def results(self, *calls: dict[str, Any]) -> list[dict[str, Any]]:
        return list(json.loads(self.end(self.begin(*calls))["output"]))

    def announced(self, execution: str) -> list[str]:
        """The ends of this execution that the rule saw within fifteen seconds."""
        deadline = time.monotonic() + 15
        while time.monotonic() < deadline:
            for message in self.queue.receive_message(QueueUrl=self.ends_url).get("Messages", []):
                detail = json.loads(message["Body"])["detail"]
                if detail["executionArn"] == execution:
                    return [detail["status"]]
            time.sleep(0.05)
        return []


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("project")
    for path, text in {
        "template.yaml": TEMPLATE,
        "machine.asl.yaml": MACHINE,
        "functions/worker/app.py": WORK,
        "functions/server/app.py": "",
        "layers/runtime/python/shared.py": "",
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    running = start(tmp_path_factory.mktemp("state"))
    yield running
    stop(running)


@pytest.fixture(scope="module")
def machine(emulator: Emulator, project: Path) -> Machine:
    return Machine(emulator, deploy(emulator, build(project, environment={}, parameters={})))


@pytest.mark.parametrize("call", [{"kind": "tool", "sleep_s": 3}, {"kind": "ask"}])
def test_task_times_out_when_its_timeout_is_an_expression(machine: Machine, call: dict[str, Any]) -> None:
    began = time.monotonic()
    [result] = machine.results({**call, "timeout_s": 1})
    assert result["Error"] == "States.Timeout"
    assert time.monotonic() - began < 2.5


@pytest.mark.parametrize("kind", ["tool", "ask"])
def test_task_fails_with_the_name_of_the_exception_when_its_function_raises(machine: Machine, kind: str) -> None:
    [result] = machine.results({"kind": kind, "breaks": True})
    assert result["Error"] == "ToolBroke"


def test_calls_overlap_in_processes_of_their_own_when_ten_run_at_once(machine: Machine) -> None:
    machine.results(*[{"sleep_s": 0.5}] * 10)  # the first time includes ten cold starts
    results = machine.results(*[{"sleep_s": 0.5}] * 10)
    assert len({result["pid"] for result in results}) == 10
    assert max(result["started"] for result in results) < min(result["ended"] for result in results)


def test_calls_wait_and_do_not_time_out_when_more_come_than_may_run(machine: Machine) -> None:
    results = machine.results(*[{"sleep_s": 0.5, "timeout_s": 1}] * 30)
    assert [result.get("Error") for result in results] == [None] * 30
    assert len({result["pid"] for result in results}) <= MOST_OF_ONE


def test_waiting_call_never_begins_when_its_execution_is_stopped(machine: Machine, tmp_path: Path) -> None:
    others = machine.begin(*[{"sleep_s": 0.6}] * MOST_OF_ONE)
    time.sleep(0.2)
    execution = machine.begin({"leaves": str(tmp_path / "trace")})
    time.sleep(0.1)
    machine.steps.stop_execution(executionArn=execution)
    machine.end(others)
    machine.results({})  # whose turn came later
    assert not (tmp_path / "trace").exists()


def test_calls_that_ask_for_calls_are_answered_when_all_turns_are_theirs(machine: Machine) -> None:
    results = machine.results(*[{"asks": True, "timeout_s": 10}] * 20)
    assert [result.get("Error") for result in results] == [None] * 20


@linux_only
def test_processes_of_a_function_are_ended_when_others_need_their_room(machine: Machine, emulator: Emulator) -> None:
    functions = client(emulator, "lambda")
    names = [found["FunctionName"] for found in functions.list_functions()["Functions"]]
    payload = json.dumps({"sleep_s": 0.3})
    for name in [name for name in names if "Function" in name] * 2:
        with ThreadPoolExecutor(MOST_OF_ONE) as pool:
            calls = [pool.submit(functions.invoke, FunctionName=name, Payload=payload) for _ in range(MOST_OF_ONE)]
        assert not any("FunctionError" in call.result() for call in calls)
    assert len(processes_of(emulator)) <= MOST + 2  # the emulator itself, and the process that it forks functions from


def test_process_is_reused_when_calls_follow_each_other(machine: Machine) -> None:
    pids = {machine.results({})[0]["pid"] for _ in range(3)}
    assert len(pids) == 1


def test_warm_execution_ends_within_tens_of_milliseconds(machine: Machine) -> None:
    def took() -> float:
        began = time.monotonic()
        machine.results({})
        return time.monotonic() - began

    assert min(took() for _ in range(10)) < 0.04  # 0.25 s without the corrections, of which none is under 0.04 s


def test_execution_stays_aborted_and_begins_no_call_when_it_is_stopped(machine: Machine, tmp_path: Path) -> None:
    execution = machine.begin({"sleep_s": 0.3}, {"leaves": str(tmp_path / "trace")}, at_once=1)
    time.sleep(0.1)
    machine.steps.stop_execution(executionArn=execution)
    time.sleep(0.7)
    assert machine.end(execution)["status"] == "ABORTED"
    assert machine.announced(execution) == ["ABORTED"]
    assert not (tmp_path / "trace").exists()


def test_new_code_runs_when_it_is_deployed(machine: Machine, emulator: Emulator, project: Path) -> None:
    machine.results({})  # leaves a warm process with the old code
    (project / "functions/worker/app.py").write_text(WORK.replace('"pid"', '"new": True, "pid"'))
    deploy(emulator, build(project, environment={}, parameters={}))
    assert "new" in machine.results({})[0]


def test_function_answers_when_it_is_started_as_a_program(project: Path) -> None:
    package = build(project, environment={}, parameters={})
    code = json.loads(package.template)["Resources"]["WorkFunction"]["Properties"]["CodeUri"]["Key"]
    arn = "arn:aws:lambda:us-east-1:000000000000:function:work"
    config = {"FunctionName": "work", "FunctionArn": arn, "Handler": "app.handler", "Timeout": 10}
    worker = ProvidedWorker("work", config, package.objects[code])  # of the emulator as it is, without corrections
    try:
        answer = worker.invoke({}, "request")
        assert answer["result"]["pid"] == worker._proc.pid, answer
    finally:
        kill_workers([worker])


def test_web_server_is_left_out_with_what_refers_to_it(project: Path) -> None:
    template = json.loads(build(project, environment={}, parameters={}).template)
    assert "ServerFunction" not in template["Resources"]
    assert "Server" not in template["Outputs"]


def test_stack_survives_and_lost_execution_is_announced_when_the_emulator_restarts(
    project: Path, tmp_path: Path
) -> None:
    first = start(tmp_path)
    package = build(project, environment={}, parameters={})
    stack = deploy(first, package)
    execution = Machine(first, stack).begin({"kind": "ask", "timeout_s": 60})
    stop(first)
    second = start(tmp_path)
    try:
        machine = Machine(second, deploy(second, package))
        assert machine.stack.state_machine_arn == stack.state_machine_arn
        assert machine.end(execution)["error"] == "States.ServiceRestart"
        assert machine.announced(execution) == ["FAILED"]
    finally:
        stop(second)
    assert find(tmp_path) is None


def test_start_refuses_when_the_demanded_port_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(PortTaken):
        start(tmp_path, port=taken.getsockname()[1])


def test_host_refuses_when_ministack_has_another_version() -> None:
    with pytest.raises(SystemExit, match=r"found 1\.5\.34"):
        emulator_host._check_version("1.5.34")


def test_two_emulators_take_two_ports_when_they_start_at_once(tmp_path: Path) -> None:
    with ThreadPoolExecutor() as pool:
        both = list(pool.map(start, [tmp_path / "a", tmp_path / "b"]))
    try:
        assert both[0].port != both[1].port
        assert [find(one.state_dir) for one in both] == both
    finally:
        for one in both:
            stop(one)


@pytest.mark.parametrize("headers", [{"Origin": "https://example.com"}, {"Host": "example.com"}])
def test_emulator_turns_pages_of_other_origins_away(emulator: Emulator, headers: dict[str, str]) -> None:
    assert httpx.get(f"{emulator.endpoint}/_ministack/health", headers=headers, trust_env=False).status_code == 403
