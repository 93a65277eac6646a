"""Bring a build onto the local AWS through CloudFormation, as `sam deploy` does on AWS."""

import time
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import boto3
from botocore.exceptions import ClientError

from local.build import CODE_BUCKET, Build
from local.emulator import Emulator

STACK_NAME = "stepagent"
_DIGEST_TAG = "local-build"
_TIMEOUT_S = 60
_SETTLED = {"CREATE_COMPLETE", "UPDATE_COMPLETE"}
_UNUSABLE = {"CREATE_FAILED", "ROLLBACK_COMPLETE", "ROLLBACK_FAILED"}  # CloudFormation updates none of these


class DeployFailed(RuntimeError):
    """CloudFormation refused or rolled back; the message names each resource and its reason."""


@dataclass(frozen=True)
class Stack:
    """What runs, and where to reach it."""

    state_machine_arn: str
    plan_state_machine_arn: str
    record_table: str
    journal_table: str
    bucket: str
    api_url: str


def client(emulator: Emulator, service: str) -> Any:
    """Return a boto3 client of `service` that talks to the emulator, whatever the user's own AWS settings are."""
    connect: Any = boto3.client  # its types demand a literal service name
    settings = emulator.environment
    return connect(
        service,
        endpoint_url=settings["AWS_ENDPOINT_URL"],
        region_name=settings["AWS_REGION"],
        aws_access_key_id=settings["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=settings["AWS_SECRET_ACCESS_KEY"],
        aws_session_token="",
    )


def deploy(emulator: Emulator, build: Build, *, name: str = STACK_NAME) -> Stack:
    """Return the stack that runs `build`; nothing is touched when it runs already.

    Raises:
        DeployFailed: CloudFormation could not create or update a resource.
    """
    cloudformation = client(emulator, "cloudformation")
    found = _find(cloudformation, name)
    if not found or not _is_current(found, build):
        _upload(emulator, build)
        found = _apply(emulator, cloudformation, name, build, found)
    return _stack(emulator, found)


def _find(cloudformation: Any, name: str) -> dict[str, Any] | None:
    try:
        stack: dict[str, Any] = cloudformation.describe_stacks(StackName=name)["Stacks"][0]
    except ClientError as error:
        if "does not exist" in str(error):
            return None
        raise
    return None if stack["StackStatus"] == "DELETE_COMPLETE" else stack


def _is_current(stack: dict[str, Any], build: Build) -> bool:
    return stack["StackStatus"] in _SETTLED and {"Key": _DIGEST_TAG, "Value": build.digest} in stack.get("Tags", [])


def _upload(emulator: Emulator, build: Build) -> None:
    s3 = client(emulator, "s3")
    with suppress(s3.exceptions.BucketAlreadyOwnedByYou):  # after a crash, when objects outlived the rest
        s3.create_bucket(Bucket=CODE_BUCKET)
    for key, content in {**build.objects, build.digest: build.template.encode()}.items():
        s3.put_object(Bucket=CODE_BUCKET, Key=key, Body=content)


def _apply(
    emulator: Emulator, cloudformation: Any, name: str, build: Build, found: dict[str, Any] | None
) -> dict[str, Any]:
    """Create or update, and wait for the end."""
    if found and found["StackStatus"] in _UNUSABLE:
        cloudformation.delete_stack(StackName=name)
        _settle(cloudformation, name)
        found = None
    change = cloudformation.update_stack if found else cloudformation.create_stack
    try:
        if found and found["StackStatus"] == "UPDATE_ROLLBACK_FAILED":
            # The catalog is a folder here, so that a rollback finds it as it is, and not as it was.
            cloudformation.continue_update_rollback(StackName=name, ResourcesToSkip=["CatalogRows"])
            _settle(cloudformation, name)
        change(
            StackName=name,
            TemplateURL=f"{emulator.endpoint}/{CODE_BUCKET}/{build.digest}",  # a request takes 51,200 bytes of one
            Capabilities=["CAPABILITY_IAM", "CAPABILITY_NAMED_IAM", "CAPABILITY_AUTO_EXPAND"],
            Tags=[{"Key": _DIGEST_TAG, "Value": build.digest}],
        )
    except ClientError as error:
        if found and "No updates are to be performed" in str(error):
            return found  # an update that was rolled back left this very build behind
        raise DeployFailed(f"{name}: {error}") from error
    stack = _settle(cloudformation, name)
    if not stack or stack["StackStatus"] not in _SETTLED:
        raise DeployFailed(f"{name}: {_reasons(cloudformation, name) or stack}")
    return stack


def _settle(cloudformation: Any, name: str) -> dict[str, Any] | None:
    """Wait until nothing is in progress; boto3's own waiters look every 30 seconds."""
    deadline = time.monotonic() + _TIMEOUT_S
    while (stack := _find(cloudformation, name)) and stack["StackStatus"].endswith("_IN_PROGRESS"):
        if time.monotonic() > deadline:
            raise DeployFailed(f"{name} is {stack['StackStatus']} after {_TIMEOUT_S} s")
        time.sleep(0.05)
    return stack


def _reasons(cloudformation: Any, name: str) -> str:
    """Why the last change failed, each reason once: a rollback may fail for the same one."""
    events = cloudformation.describe_stack_events(StackName=name)["StackEvents"]  # the newest first
    latest = takewhile(lambda event: event.get("ResourceStatusReason") != "User Initiated", events)
    reasons = [
        f"{event['LogicalResourceId']}: {event['ResourceStatusReason']}"
        for event in latest
        if event["ResourceStatus"].endswith("_FAILED") and event.get("ResourceStatusReason")
    ]
    return "; ".join(dict.fromkeys(reasons))


def _stack(emulator: Emulator, found: dict[str, Any]) -> Stack:
    outputs = {output["OutputKey"]: output["OutputValue"] for output in found["Outputs"]}
    return Stack(
        state_machine_arn=outputs["StateMachineArn"],
        plan_state_machine_arn=outputs["PlanStateMachineArn"],
        record_table=outputs["RecordTable"],
        journal_table=outputs["JournalTable"],
        bucket=outputs["Bucket"],
        # By path, because the name that AWS would give the API does not resolve here.
        api_url=f"{emulator.endpoint}/_aws/execute-api/{outputs['ApiId']}/v1",
    )
