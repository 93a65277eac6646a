"""A tool for tests: it does to its process and to its caller whatever a tool can do, and counts its runs in a file."""

import os
import time
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from stepagent.tools import ToolError, tool


@tool
def handler(
    action: Literal["echo", "sleep", "repeat", "refuse", "raise", "exit", "exit_first", "show"],
    value: str = "",
    number: Annotated[float, Field(description="Seconds to sleep, or how often to repeat the value.")] = 0,
) -> Any:
    """Do as told."""
    log = Path(os.environ["PROBE_LOG"])
    with log.open("a") as lines:
        lines.write(f"{action} {value}\n")
    match action:
        case "sleep":
            time.sleep(number)
        case "refuse":
            raise ToolError(value)
        case "raise":
            raise RuntimeError(value)
        case "show":
            return [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{'A' * int(number)}"}}]
        case "exit":
            os._exit(1)
        case "exit_first" if log.read_text().count(f"{action} {value}\n") == 1:
            os._exit(1)
    return value * int(number) if action == "repeat" else value
