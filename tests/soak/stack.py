"""The product as it is soaked: on the local stack, with agents and tools for it, and patience to match."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests import probe
from tests.local_loop import LocalLoop, front_door, local_loop
from tests.scripted_model import ScriptedModel
from tests.soak.clocks import wrong_clocks
from tests.soak.faults import Faults
from tests.soak.model import make_model

# The model is given up when it stalls for two seconds instead of a minute.
_MODEL = """
  - name: soak
    provider: compatible
    provider_model: soak
    base_url: ${OPENAI_BASE_URL}
    idle_timeout_s: 2
"""
# A message whose function died comes again after ten seconds instead of three minutes.
_HIDDEN = ("&hidden_s 180", "&hidden_s 10")


@dataclass(frozen=True)
class Soaked:
    """The running stack, its client over HTTP, and what is kept outside of it."""

    loop: LocalLoop
    http: httpx.Client
    model: ScriptedModel
    effects: Path
    clocks: Path
    broken: list[str]  # conversations that no provider would take


@contextmanager
def soaked_stack(folder: Path, faults: Faults) -> Iterator[Soaked]:
    effects, clocks, broken = folder / "effects.log", folder / "clocks.log", list[str]()
    effects.touch()
    clocks.touch()
    root = folder / "product"
    root.mkdir()
    _lay_out(root)
    with (
        make_model(faults, broken) as model,
        wrong_clocks(faults.seed, clocks),
        local_loop(model.base_url, root=root, PROBE_LOG=str(effects)) as loop,
        front_door(loop, log=folder / "front_door.log") as http,
    ):
        yield Soaked(loop, http, model, effects, clocks, broken)


def _lay_out(root: Path) -> None:
    probe.lay_out(root)
    (root / "layers").unlink()  # functions import it when they start, and it may be edited meanwhile
    shutil.copytree(probe.ROOT / "layers", root / "layers")
    shutil.copytree(Path(__file__).parent / "catalog", root / "catalog", dirs_exist_ok=True)
    with (root / "catalog" / "models.yaml").open("a") as models:
        models.write(_MODEL)
    template = (root / "template.yaml").read_text()
    assert _HIDDEN[0] in template, "the queue's time is written otherwise"
    (root / "template.yaml").write_text(template.replace(*_HIDDEN))
