"""The tool `current_time`."""

from datetime import UTC, datetime
from typing import Annotated

from clock import UnknownTimezone, current_time
from pydantic import Field

from stepagent.tools import ToolError, tool


@tool
def handler(
    timezone: Annotated[
        str, Field(max_length=100, description="IANA name of the time zone, such as Europe/Berlin or Asia/Tokyo.")
    ] = "UTC",
) -> dict[str, str]:
    """Tell the current date, time and weekday in a time zone."""
    try:
        return current_time(timezone, datetime.now(UTC))
    except UnknownTimezone as error:
        raise ToolError(str(error)) from error
