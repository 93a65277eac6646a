"""The template as AWS SAM hands it to CloudFormation: with the roles, permissions and versions that SAM adds."""

import copy
import logging
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from samtranslator.parser.parser import Parser
from samtranslator.translator.translator import Translator
from samtranslator.yaml_helper import yaml_parse

from tests.functions import ROOT

Json = dict[str, Any]

# What `sam build` and `sam deploy` replace with a place in a bucket.
_PLACES = {
    "AWS::Serverless::Function": "CodeUri",
    "AWS::Serverless::LayerVersion": "ContentUri",
    "AWS::Serverless::StateMachine": "DefinitionUri",
}


class Allowed(NamedTuple):
    """A statement that allows something, and the logical id of the resource in which it stands."""

    resource: str
    statement: Json


def translate(template: Json) -> Json:
    """A template of SAM's as one of CloudFormation's. Parameters stay references, as most do when SAM does it."""
    template = copy.deepcopy(template)
    for name, resource in template["Resources"].items():
        if place := _PLACES.get(resource["Type"]):
            resource["Properties"][place] = f"s3://code/{name}"
    logging.getLogger("samtranslator").setLevel(logging.ERROR)  # it misses a table of features that only AWS has
    translated: Json = Translator({}, Parser()).translate(template, {})
    return translated


@cache
def translated_template() -> Json:
    return translate(yaml_parse((ROOT / "template.yaml").read_text()))


def resources() -> Json:
    """The resources of the translated template, by their logical ids."""
    found: Json = translated_template()["Resources"]
    return found


def allowed() -> Iterator[Allowed]:
    """Every statement that allows something, wherever it stands."""
    for name, resource in resources().items():
        for statement in _statements(resource):
            if statement["Effect"] == "Allow":
                yield Allowed(name, statement)


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _statements(value: Any) -> Iterator[Json]:
    if isinstance(value, dict):
        for statement in listed(value.get("Statement", [])):
            yield from (each for each in alternatives(statement) if "Effect" in each)
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _statements(inner)


def alternatives(value: Any) -> list[Any]:
    """What stands there under any condition."""
    if isinstance(value, dict) and set(value) == {"Fn::If"}:
        return [each for branch in value["Fn::If"][1:] for each in alternatives(branch)]
    return [] if value == {"Ref": "AWS::NoValue"} else [value]
