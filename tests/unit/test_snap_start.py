"""Starting from snapshots: a choice of whoever deploys, which changes nothing where it is not taken."""

import copy
import json
import random
import re
from typing import Any

import pytest
from samtranslator.yaml_helper import yaml_parse
from snapshot_restore_py import get_after_restore

from stepagent.settings import Settings
from tests.functions import ROOT, load
from tests.permissions import settings_of_code
from tests.translated import Json, resources, translate

TEMPLATE: Json = yaml_parse((ROOT / "template.yaml").read_text())
CHOICE: Json = TEMPLATE["Parameters"]["SnapStart"]
ALIAS, FUNCTION = {"Ref": "ThinkFunctionAliaslive"}, {"Fn::GetAtt": ["ThinkFunction", "Arn"]}
GLOBAL_VARIABLES: Json = TEMPLATE["Globals"]["Function"]["Environment"]["Variables"]


def chosen(value: Any, snap_start: str) -> Any:
    """A part of the template as it is with this choice."""
    match value:
        case {"Fn::If": ["StartsFromSnapshots", yes, no]}:
            return yes if snap_start == "PublishedVersions" else no
        case dict():
            return {name: chosen(inner, snap_start) for name, inner in value.items()}
        case list():
            return [chosen(inner, snap_start) for inner in value]
        case _:
            return value


def version_id(template: Json) -> str:
    [name] = [n for n, each in translate(template)["Resources"].items() if each["Type"] == "AWS::Lambda::Version"]
    return str(name)


def test_functions_start_anew_unless_somebody_chooses_otherwise() -> None:
    assert (CHOICE["Default"], CHOICE["AllowedValues"]) == ("None", ["None", "PublishedVersions"])
    assert TEMPLATE["Conditions"]["StartsFromSnapshots"] == {"Fn::Equals": [{"Ref": "SnapStart"}, "PublishedVersions"]}
    assert resources()["ThinkFunction"]["Properties"]["SnapStart"] == {"ApplyOn": {"Ref": "SnapStart"}}


@pytest.mark.parametrize(("snap_start", "invoked"), [("None", FUNCTION), ("PublishedVersions", ALIAS)])
def test_state_machines_invoke_the_version_only_when_it_starts_from_a_snapshot(snap_start: str, invoked: Json) -> None:
    machines = [each for each in resources().values() if each["Type"] == "AWS::StepFunctions::StateMachine"]
    substitutions = [machine["Properties"].get("DefinitionSubstitutions", {}) for machine in machines]
    named = [chosen(each["ThinkFunctionArn"], snap_start) for each in substitutions if "ThinkFunctionArn" in each]
    assert named == [invoked] * len(named) != []


@pytest.mark.parametrize(("snap_start", "invoked"), [("None", FUNCTION), ("PublishedVersions", ALIAS)])
def test_roles_may_invoke_what_the_state_machines_invoke(snap_start: str, invoked: Json) -> None:
    machines = [name for name, each in resources().items() if each["Type"] == "AWS::StepFunctions::StateMachine"]
    roles = [json.dumps(chosen(resources()[f"{name}Role"], snap_start)) for name in machines]
    other = FUNCTION if invoked is ALIAS else ALIAS
    assert [role for role in roles if json.dumps(invoked) in role]
    assert [role for role in roles if json.dumps(other) in role] == []


def test_nobody_invokes_the_version_when_functions_start_anew() -> None:
    """Else a changed parameter would not reach what runs: SAM makes a version for code that changed, not for values."""
    users = {name for name, each in resources().items() if json.dumps(ALIAS) in json.dumps(chosen(each, "None"))}
    assert users == set()


def test_version_that_is_not_used_any_more_is_deleted() -> None:
    [version] = [each for each in resources().values() if each["Type"] == "AWS::Lambda::Version"]
    assert version["DeletionPolicy"] == "Delete"


@pytest.mark.parametrize("layer", ["RuntimeLayer", "CatalogLayer"])
def test_version_is_another_one_when_a_layer_is(layer: str) -> None:
    changed = copy.deepcopy(TEMPLATE)
    changed["Resources"][layer]["Properties"]["Description"] = "Another one."
    assert version_id(changed) != version_id(TEMPLATE)


def test_version_is_another_one_when_a_parameter_is_that_its_code_reads() -> None:
    """CloudFormation replaces a version whose description changes, and then alone."""
    [version] = [each for each in resources().values() if each["Type"] == "AWS::Lambda::Version"]
    read = {Settings.model_fields[name].validation_alias for name in settings_of_code(ROOT / "functions" / "think")}
    own = TEMPLATE["Resources"]["ThinkFunction"]["Properties"]["Environment"]["Variables"]
    values = {name: value for name, value in GLOBAL_VARIABLES.items() if name in read} | own
    parameters = set(re.findall(r'"Ref": "(\w+)"', json.dumps(values))) & set(TEMPLATE["Parameters"])
    description = chosen(version["Properties"]["Description"], "PublishedVersions")["Fn::Sub"]
    assert parameters == set(re.findall(r"\$\{(\w+)\}", description))


def test_snapshots_are_possible_when_nothing_forbids_them() -> None:
    function = resources()["ThinkFunction"]["Properties"]
    assert function["Runtime"] >= "python3.12"
    assert not {"ProvisionedConcurrencyConfig", "FileSystemConfigs", "EphemeralStorage"} & set(function)


def test_chance_is_drawn_anew_when_a_function_starts_from_a_snapshot() -> None:
    load("think", "app")
    assert random.seed in [hook for hook, *_ in get_after_restore()]
