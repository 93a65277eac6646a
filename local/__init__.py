"""The stack on this machine and its client. The product's library is found where it stands in the repository."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "layers" / "runtime" / "python"))
