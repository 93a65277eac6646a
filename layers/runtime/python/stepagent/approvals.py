"""Which calls a person must approve, and what exactly was approved."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from stepagent.agents import ApprovalWhen, ToolSpec


def needs_approval(tool: ToolSpec, arguments: Mapping[str, Any]) -> bool:
    """Whether a person must approve a call with these arguments, the bound ones among them."""
    if isinstance(tool.approval, ApprovalWhen):
        from jsonschema import Draft202012Validator  # noqa: PLC0415  # heavy, and needed for conditions alone

        return Draft202012Validator(tool.approval.when).is_valid(dict(arguments))
    return tool.approval == "always"


def digest_of(arguments: Mapping[str, Any]) -> str:
    """SHA-256 of the arguments in their canonical form: what a person approves, and nothing else, may run."""
    return hashlib.sha256(json.dumps(arguments, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
