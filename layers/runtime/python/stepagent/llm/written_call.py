"""A call that a model wrote as JSON into its text."""

import json
import re
from typing import Any

from stepagent.llm.lenient_json import Incomplete, read_value, read_whole
from stepagent.llm.reply import RequestedCall

_BRACE = re.compile("[{｛]")


class NoCall(Exception):
    """There is no call in a text; the message says why, to the model."""


class CallUnfinished(NoCall):
    """The text ended before its call did."""


def read_call(text: str, start: int = 0) -> RequestedCall:
    """The call in the first JSON object from `start` on. What follows that object does not count.

    Raises:
        NoCall: there is none.
    """
    brace = _BRACE.search(text, start)
    if brace is None:
        raise NoCall("there is no JSON object")
    try:
        value, _ = read_value(text, brace.start())
    except Incomplete as error:
        raise CallUnfinished("the JSON object has no end") from error
    except ValueError as error:
        raise NoCall("the JSON object is not valid") from error
    return _call(value)


def _call(value: Any) -> RequestedCall:
    fields = value if isinstance(value, dict) else {}
    name = next((each for key in ("toolId", "name") if isinstance(each := fields.get(key), str) and each.strip()), "")
    if not name:
        raise NoCall('the JSON object has no "toolId"')
    wanted = (fields[key] for key in ("arguments", "parameters") if fields.get(key) is not None)
    return RequestedCall(provider_id="", name=name.strip(), arguments=_arguments(next(wanted, {})))


def _arguments(value: Any) -> str:
    """The arguments as JSON. A string is JSON once more, written by a model that was too careful."""
    if isinstance(value, str):
        try:
            value = read_whole(value)
        except ValueError:
            return str(value)  # whoever checks arguments says what is wrong with them
    return json.dumps(value, ensure_ascii=False)
