"""The product on the local stack, laid out for the cases: their tool, and a model row for each of their runs."""

import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import yaml

from tests import probe
from tests.conformance.cases import TARGET, Json
from tests.conformance.model_server import ModelServer
from tests.local_loop import LocalLoop, front_door, local_loop

API_MODEL = "case-api"  # the model behind the agent that requests to the API name
LONG_AGENT, LONG_MODEL = "long", "case-long"
WORKER_AGENT, WORKER_MODEL, WORK_TOOL = "worker", "case-worker", "work"
_FUNCTION = f"""
  ToolCaseFunction:
    Type: AWS::Serverless::Function
    Properties:
      FunctionName: !Sub ${{AWS::StackName}}-{TARGET}
      CodeUri: functions/{TARGET}
"""
_AGENTS = (("agent", API_MODEL, ()), (LONG_AGENT, LONG_MODEL, ()), (WORKER_AGENT, WORKER_MODEL, (WORK_TOOL,)))


@dataclass(frozen=True)
class Stage:
    """What runs: the loop, the models and the HTTP API. `folder` holds the scripts and logs of the tools.

    Requests to the API share one agent and so one model: whoever scripts that one holds `api_turn`.
    """

    loop: LocalLoop
    models: ModelServer
    folder: Path
    door: httpx.Client
    gateway: httpx.Client
    api_turn: threading.Lock = field(default_factory=threading.Lock)


@contextmanager
def stage(rows: Iterable[tuple[str, Json]]) -> Iterator[Stage]:
    """Lays out, deploys and serves; `rows` are the models' rows, by name."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="conformance-")))
        models = stack.enter_context(ModelServer())
        root = _lay_out(folder / "product", models, [*rows, *((model, {}) for _, model, _ in _AGENTS)])
        cases = folder / "cases"
        cases.mkdir()
        loop = stack.enter_context(local_loop(models.base_url("case-none"), root=root, CASES_DIR=str(cases)))
        door = stack.enter_context(front_door(loop))
        gateway = stack.enter_context(httpx.Client(base_url=loop.stack.api_url, timeout=40, trust_env=False))
        yield Stage(loop, models, cases, door, gateway)


def _lay_out(root: Path, models: ModelServer, rows: Iterable[tuple[str, Json]]) -> Path:
    root.mkdir()
    probe.lay_out(root)
    (root / "functions" / TARGET).symlink_to(Path(__file__).parent / TARGET)
    template = root / "template.yaml"
    template.write_text(template.read_text().replace("\nResources:\n", f"\nResources:\n{_FUNCTION}", 1))
    work = {"name": WORK_TOOL, "description": "Does the work.", "kind": "lambda", "target": TARGET}
    (root / "catalog" / "tools" / "case_work.yaml").write_text(yaml.safe_dump(work))
    for name, model, tools in _AGENTS:
        agent = {"name": name, "instructions": "Be helpful.", "model": model, "tools": list(tools)}
        (root / "catalog" / "agents" / f"case_{name}.yaml").write_text(yaml.safe_dump(agent))
    listed = root / "catalog" / "models.yaml"
    content: Json = yaml.safe_load(listed.read_text())
    content["models"] += [_row(name, models, fields, content["providers"]) for name, fields in rows]
    listed.write_text(yaml.safe_dump(content, allow_unicode=True))
    return root


def _row(name: str, models: ModelServer, fields: Json, providers: Json) -> Json:
    own = dict(fields)
    provider = provider_fields(str(own.pop("provider", "compatible")), providers)
    return {**provider, "name": name, "provider_model": name, "base_url": models.base_url(name), **own}


def provider_fields(named: str, providers: Json) -> Json:
    """The fields by which a row becomes one of the provider that a case names, such as `gemini-openai`."""
    name = named.lower().replace("_", "-").replace(" ", "-")
    if "strict" in name:
        return {"provider": "openai", "schema_dialect": "openai_strict"}
    known = [provider for provider in providers if name.startswith(provider.replace("_", "-"))]
    return {"provider": max(known, key=len) if known else "compatible"}
