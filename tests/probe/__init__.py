"""The product with a few tools, agents and models more, for tests: nothing of the product is changed for it."""

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
    (functions / "tool_probe").symlink_to(Path(__file__).parent / "tool_probe")
    template = (ROOT / "template.yaml").read_text().replace("\nResources:\n", f"\nResources:\n{_FUNCTION}", 1)
    (folder / "template.yaml").write_text(template)
    return folder
