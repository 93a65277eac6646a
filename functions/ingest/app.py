"""Takes the queues' messages, which start runs; reports those that come again."""

from typing import Any

from stepagent.observe import observed
from stepagent.triggers.messages import take_messages


@observed
def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    return take_messages(event)
