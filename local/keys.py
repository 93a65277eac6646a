"""Keys of the API, made, listed and revoked on the local stack or on a deployed one.

They are written into the record by whoever may write there, with his AWS credentials: the API itself has no route that
makes keys, so a key that leaks makes no others.
"""

import os
from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple, Self, get_args

import boto3
from botocore.exceptions import BotoCoreError, ClientError
from pydantic import ValidationError
from rich.table import Table

from local.usage_plans import UsagePlanUnavailable, enter_plan, leave_plan
from stepagent.api.keys import Scope, digest_of, is_name, make_key
from stepagent.clock import now
from stepagent.errors import StepAgentError
from stepagent.models import problems
from stepagent.runs import Principal
from stepagent.settings import settings
from stepagent.spending import KeyBudget
from stepagent.store.keys import KeyRecord, id_of, list_keys, put_key, read_spent, revoke_key

__all__ = ["Made", "Terms", "enter", "list_in_parameter", "make", "new_budget", "revoke", "table"]

SCOPES: tuple[str, ...] = get_args(Scope)


class KeysUnavailable(RuntimeError):
    """The command cannot be carried out; the message says why."""


def enter(stack: str) -> str:
    """Lets the library in this process work on the record of a deployed stack, or, with "", of the local one.

    Returns the id of the usage plan for its keys, "" where the stack has none.

    Raises:
        KeysUnavailable: there is no such stack, or nobody with these credentials may look.
    """
    if not stack:
        os.environ.pop("AWS_PROFILE", None)  # it would win over the emulator's credentials
        os.environ.update(_local_environment())
    try:
        connect: Any = boto3.client
        found = connect("cloudformation").describe_stacks(StackName=stack or "stepagent")["Stacks"][0]
    except (BotoCoreError, ClientError) as error:
        where = "\nAWS_PROFILE and AWS_DEFAULT_REGION say where." if stack else ""
        raise KeysUnavailable(f"The stack {stack or 'stepagent'} cannot be looked up: {error}{where}") from error
    outputs = {output["OutputKey"]: output["OutputValue"] for output in found.get("Outputs", [])}
    if "RecordTable" not in outputs:
        raise KeysUnavailable(f"{stack} is no stack of StepAgent: it has no output RecordTable.")
    os.environ["RECORD_TABLE"] = outputs["RecordTable"]
    settings.cache_clear()
    plan_id: str = outputs.get("ClientUsagePlanId", "")
    return plan_id


def _local_environment() -> dict[str, str]:
    from local import emulator, stack

    running = emulator.find(stack.home() / "aws")
    if running is None:
        raise KeysUnavailable(
            "Nothing is running. `make up` starts the local stack; STACK=name (or --stack) asks a deployed one."
        )
    return running.environment


class Made(NamedTuple):
    """A new key, which nobody can read again, and what to say of it."""

    key: str
    note: str


class Terms(NamedTuple):
    """For whom a key is, and what may be done with it."""

    name: Principal
    scopes: tuple[str, ...] = ()
    budget: KeyBudget | None = None
    expires_at: datetime | None = None

    @classmethod
    def of(cls, name: str, scopes: Sequence[str], budget: KeyBudget | None, expires_in_days: int | None) -> Self:
        """Terms, checked.

        Raises:
            KeysUnavailable: name or scope is none.
        """
        if not is_name(name):
            raise KeysUnavailable(
                'Name whoever will use the key by up to 64 letters, digits, ".", "_", "-" and "@", such as NAME=alice.'
            )
        if unknown := set(scopes) - set(SCOPES):
            raise KeysUnavailable(f"There is no scope {', '.join(sorted(unknown))}; there is: {', '.join(SCOPES)}.")
        expires_at = now() + timedelta(days=expires_in_days) if expires_in_days else None
        return cls(Principal(name), tuple(sorted(set(scopes))), budget, expires_at)


def make(terms: Terms, stack: str, usage_plan: str = "") -> Made:
    """Makes a key, gives it a place in the stack's usage plan, or in another one, and stores its hash.

    Raises:
        KeysUnavailable: there is no such stack, or API Gateway refuses; nothing is stored.
    """
    plan_id = enter(stack)
    key = make_key()
    digest = digest_of(key)
    try:
        usage_key = enter_plan(id_of(digest), usage_plan or plan_id) if usage_plan or plan_id else ""
    except UsagePlanUnavailable as error:
        raise KeysUnavailable(str(error)) from error
    record = KeyRecord(
        digest=digest,
        name=terms.name,
        scopes=terms.scopes,
        budget=terms.budget,
        created_at=now(),
        expires_at=terms.expires_at,
        usage_key=usage_key,
    )
    try:
        put_key(record)
    except StepAgentError:
        if usage_key:
            leave_plan(record.key_id)
        raise
    return Made(key, f"{record.key_id}, a key for {record.name}.")


def revoke(key_id: str, stack: str) -> str:
    """Makes a key invalid and gives its place in the usage plan back; returns what to say of it.

    Raises:
        KeysUnavailable: there is no such stack, or the place is not given back; the key is invalid then all the same.
        NotFound: no key has this id.
    """
    enter(stack)
    record = revoke_key(key_id)
    if record.usage_key:
        try:
            leave_plan(record.key_id)
        except UsagePlanUnavailable as error:
            raise KeysUnavailable(f"{record.key_id} is revoked. {error}") from error
    return f"{record.key_id}, a key for {record.name}, is revoked."


def list_in_parameter(terms: Terms) -> Made:
    """Makes a key for the parameter `ApiKeyHashes`; stores nothing.

    Raises:
        KeysUnavailable: the parameter cannot hold such terms.
    """
    if terms.budget or terms.expires_at:
        raise KeysUnavailable("An entry of ApiKeyHashes has neither budget nor end: leave out --entry.")
    key = make_key()
    return Made(key, f"Entry for ApiKeyHashes: {'+'.join([terms.name, *terms.scopes])}={digest_of(key)}")


def new_budget(per: str, max_cost_usd: str, max_total_tokens: int | None) -> KeyBudget | None:
    """A budget, or None where nothing is bounded.

    Raises:
        KeysUnavailable: it is not one.
    """
    if not max_cost_usd and max_total_tokens is None:
        return None
    try:
        content = {"per": per, "max_cost_usd": max_cost_usd or None, "max_total_tokens": max_total_tokens}
        return KeyBudget.model_validate(content)
    except ValidationError as error:
        raise KeysUnavailable(f"The budget is not right: {problems(error)}.") from error


def table() -> Table:
    """All keys, for people, with what was spent in the period that goes on."""
    moment = now()
    shown = Table("Key", "Name", "Scopes", "State", "Made", "Last used", "Budget", "Spent", box=None, pad_edge=False)
    for record in list_keys():
        used = f"{record.last_used_at:%Y-%m-%d %H:00}" if record.last_used_at else "never"
        made = f"{record.created_at:%Y-%m-%d}"
        budget = (str(record.budget), _spent(record, moment)) if record.budget else ("", "")
        shown.add_row(record.key_id, record.name, " ".join(record.scopes), _state(record, moment), made, used, *budget)
    return shown


def _state(record: KeyRecord, moment: datetime) -> str:
    if record.revoked_at:
        return f"revoked {record.revoked_at:%Y-%m-%d}"
    if record.expires_at is None:
        return "valid"
    return f"{'valid until' if record.is_valid(moment) else 'expired'} {record.expires_at:%Y-%m-%d}"


def _spent(record: KeyRecord, moment: datetime) -> str:
    assert record.budget
    spent = read_spent(record.key_id, record.budget.per, moment)
    money = "unknown" if spent.cost_usd is None else f"{spent.cost_usd.quantize(Decimal('0.01'))} USD"
    return f"{money}, {spent.total_tokens} tokens"
