"""Which calls a person must approve, and what exactly was approved."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from stepagent.schemas import validator_of
from stepagent.tool_specs import ApprovalWhen, ToolSpec


def needs_approval(tool: ToolSpec, arguments: Mapping[str, Any]) -> bool:
    """Whether a person must approve a call with these arguments, the bound ones among them.

    A condition that cannot be checked, such as one with a reference that leads nowhere, counts as met.
    """
    if isinstance(tool.approval, ApprovalWhen):
        try:
            return validator_of(tool.approval.when).is_valid(dict(arguments))
        except Exception:  # a schema that is none in a part that only a reference reaches fails in many ways
            return True
    return tool.approval == "always"


def digest_of(arguments: Mapping[str, Any]) -> str:
    """SHA-256 of the arguments in their canonical form: what a person approves, and nothing else, may run."""
    return hashlib.sha256(json.dumps(arguments, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
