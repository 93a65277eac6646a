"""Functions whose clocks are wrong: two processes in three are an hour ahead or behind.

The shift is set in the script that starts a function on this machine, before anything of the product is loaded; nothing
of the product knows of it. What shifts is `time.time` and the product's own clock, which is its one source of the time
of day. Signatures of requests to AWS keep the right time: AWS would refuse others, and the emulator checks none.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from local import build
from local.fork_server import START_SCRIPT

SKEW_S = 3600
_SHIFT = """\
import datetime, os, random, time
skew_s = random.Random(f"{seed}/{{os.getpid()}}").choice([0, {skew_s}, -{skew_s}])
with open({log!r}, "a") as log:
    log.write(f"{{skew_s}} {{os.environ.get('AWS_LAMBDA_FUNCTION_NAME')}}\\n")
right_time = time.time
time.time = lambda: right_time() + skew_s
class ShiftedClock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return datetime.datetime.now(tz) + datetime.timedelta(seconds=skew_s)
import sys
sys.path.insert(0, {library!r})
import stepagent.clock
stepagent.clock.datetime = ShiftedClock
"""


@contextmanager
def wrong_clocks(seed: int, log: Path) -> Iterator[None]:
    """Within the block builds have such functions; each process writes the seconds of its shift into the log."""
    runtime = build._runtime

    def shifted(root: Path) -> dict[str, str]:
        files = runtime(root)
        shift = _SHIFT.format(seed=seed, skew_s=SKEW_S, log=str(log), library=str(root / build.LIBRARY))
        return files | {START_SCRIPT: shift + files[START_SCRIPT]}

    with patch.object(build, "_runtime", shifted):
        yield


def count_clocks(log: Path) -> dict[str, int]:
    """How many processes were started with which clock."""
    counts = Counter(line.split()[0] for line in log.read_text().splitlines())
    names = {str(SKEW_S): "clock an hour ahead", str(-SKEW_S): "clock an hour behind"}
    return {name: counts[skew] for skew, name in names.items()}
