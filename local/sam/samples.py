"""The sample events of the functions, and what an answer to one comes to."""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from samtranslator.yaml_helper import yaml_parse

_TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)?")


class Sample(NamedTuple):
    """`events/<function>/<situation>.json`, where `function` is the name of the folder that holds the code."""

    function: str
    situation: str
    path: Path

    @property
    def name(self) -> str:
        return f"{self.function}/{self.situation}"


def find_samples(root: Path, wanted: Iterable[str] = ()) -> list[Sample]:
    """All samples in order, or those that a wish names: a function's, or `function/situation`."""
    wishes = set(wanted)
    found = [Sample(path.parent.name, path.stem, path) for path in sorted((root / "events").glob("*/*.json"))]
    return [sample for sample in found if not wishes or {sample.function, sample.name} & wishes]


def logical_ids(root: Path) -> dict[str, str]:
    """The logical id in the template of each folder of functions."""
    resources: Mapping[str, Any] = yaml_parse((root / "template.yaml").read_text())["Resources"]
    return {
        Path(resource["Properties"]["CodeUri"]).name: name
        for name, resource in resources.items()
        if resource["Type"] == "AWS::Serverless::Function"
    }


def outcome_of(answer: Any) -> str:
    """What an answer comes to, without what differs each time: its error, its HTTP status and fields, or all of it."""
    match answer:
        case {"errorType": str(error)}:
            return f"raises {error}"
        case {"statusCode": int(status), "body": body}:
            return f"HTTP {status} {_told(body)}".rstrip()
        case _:
            return _TIME.sub("<time>", json.dumps(answer, sort_keys=True, ensure_ascii=False))


def _told(body: object) -> str:
    """The code of the error that a body tells, or the names of its fields."""
    try:
        content = json.loads(body) if isinstance(body, str) else None
    except ValueError:  # a stream
        return ""
    match content:
        case {"error": {"code": code}}:
            return f"({code})"
        case {}:
            return " ".join(sorted(content))
        case _:
            return ""
