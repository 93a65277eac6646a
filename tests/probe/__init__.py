"""The product with a few tools, agents and models more, for tests: nothing of the product is changed for it."""

import json
import re
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
_FUNCTION = """
  ToolProbeFunction:
    Type: AWS::Serverless::Function
    Properties:
      FunctionName: !Sub ${AWS::StackName}-tool_probe
      CodeUri: functions/tool_probe
"""
_FLOW = {
    "StartAt": "Choose",
    "QueryLanguage": "JSONata",
    "States": {
        "Choose": {
            "Type": "Choice",
            "Choices": [{"Condition": "{% $states.input.fail = true %}", "Next": "Break"}],
            "Default": "Return",
        },
        "Return": {"Type": "Pass", "End": True},
        "Break": {"Type": "Fail", "Error": "FlowBroken", "Cause": "it was told to"},
    },
}
_OTHERS = f"""
  TheirsFunction:
    Type: AWS::Serverless::Function
    Properties:
      FunctionName: probe-theirs
      CodeUri: functions/theirs
  ProbeFlow:
    Type: AWS::StepFunctions::StateMachine
    Properties:
      StateMachineName: probe-flow
      RoleArn: !GetAtt AgentStateMachineRole.Arn
      DefinitionString: {json.dumps(json.dumps(_FLOW))}
"""
_DEFAULTS = {
    "ExternalFunctionArns": "arn:aws:lambda:us-east-1:000000000000:function:probe-theirs",
    "IngestEventSources": "com.example.orders",
    "DailyReportSchedule": "rate(3650 days)",
    "WorkflowArns": "arn:aws:states:us-east-1:000000000000:stateMachine:probe-flow",
    "ReplyQueueArns": "arn:aws:sqs:us-east-1:000000000000:results",
}
_MODELS = """
  - name: toolless # its server refuses tools where a test has it say so
    provider: compatible
    provider_model: toolless
    base_url: ${OPENAI_BASE_URL}

  - name: unreachable
    provider: compatible
    provider_model: unreachable
    base_url: http://127.0.0.1:9/v1
    fallbacks: [default]
"""


def lay_out(folder: Path) -> Path:
    """Lays the product out in a folder, with links to what stays as it is; returns the folder."""
    for name in ("layers", "statemachine"):
        (folder / name).symlink_to(ROOT / name)
    shutil.copytree(ROOT / "catalog", folder / "catalog")
    shutil.copytree(Path(__file__).parent / "catalog", folder / "catalog", dirs_exist_ok=True)
    with (folder / "catalog" / "models.yaml").open("a") as models:
        models.write(_MODELS)
    functions = folder / "functions"
    functions.mkdir()
    for function in (ROOT / "functions").iterdir():
        (functions / function.name).symlink_to(function)
    for name in ("tool_probe", "theirs"):
        (functions / name).symlink_to(Path(__file__).parent / name)
    (folder / "template.yaml").write_text(_template())
    return folder


def _template() -> str:
    """The product's template with the functions and the state machine of the tests, which its parameters list."""
    text = (ROOT / "template.yaml").read_text()
    text = text.replace("\nResources:\n", f"\nResources:\n{_FUNCTION}{_OTHERS}", 1)
    for name, arn in _DEFAULTS.items():
        text = re.sub(rf"(\n  {name}:\n    Type: \w+\n    Default:) ''", rf"\1 {arn}", text)
    return text
