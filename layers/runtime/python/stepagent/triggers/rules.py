"""Rules of `catalog/triggers.yaml`: which events start runs, of which agent, and what it is told of them."""

from collections.abc import Collection, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import AfterValidator, Field, ValidationError, field_validator

from stepagent.agents import Name
from stepagent.errors import ConfigurationError, InvalidRequest
from stepagent.models import Frozen
from stepagent.replies.places import check_reply_to
from stepagent.replies.reply_to import ReplyTo
from stepagent.row_problems import in_words
from stepagent.triggers.cycles import agents_heard, cycle_of
from stepagent.triggers.events import Event
from stepagent.triggers.patterns import check_pattern, matches
from stepagent.triggers.templates import check_template
from stepagent.yaml_text import read_yaml

TRIGGERS_FILE = "triggers.yaml"
MAX_OBJECT_KB = 256
_MAX_FILES = 10

Template = Annotated[str, AfterValidator(check_template), Field(min_length=1)]


class Rule(Frozen):
    """What an event starts. In templates, `{% … %}` is JSONata over the event's envelope."""

    name: Name
    match: dict[str, Any] = Field(description="An event pattern, which must name the sources that it is for.")
    agent: Name
    input: Template = Field(description="What the agent is told. A value from the event is put in on one line.")
    session: Template | None = Field(None, description="Events with the same one go on with one conversation.")
    files: dict[Annotated[str, Field(min_length=1, max_length=255)], Template] = Field(
        default_factory=dict, max_length=_MAX_FILES, description="Longer contents, fenced as attached files are."
    )
    reply_to: ReplyTo | None = Field(None, description="Where the result goes when the run has ended.")
    object_text_kb: int | None = Field(
        None, ge=1, le=MAX_OBJECT_KB, description="Attaches that much of the text of an object of the inbox bucket."
    )

    @field_validator("match")
    @classmethod
    def _is_a_pattern(cls, pattern: dict[str, Any]) -> dict[str, Any]:
        check_pattern(pattern)
        agents_heard(pattern)
        return pattern

    @field_validator("input")
    @classmethod
    def _says_something(cls, text: str) -> str:
        if not text.strip():
            raise ValueError("must not be blank")
        return text


@cache
def load_rules(path: Path) -> tuple[Rule, ...]:
    """Reads the rules, in their order, once a process; none where there is no such file.

    Raises:
        ConfigurationError: one is wrong; the message names the file, the rule and the field.
    """
    if not path.exists():
        return ()
    try:
        content = read_yaml(path.read_text(encoding="utf-8"))
        rows = content["rules"] if isinstance(content, dict) and set(content) == {"rules"} else None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path.name} is not right: {error}.") from error
    if not isinstance(rows, list):
        raise ConfigurationError(f"{path.name} is not right: it must hold a list named 'rules' and nothing else.")
    rules = tuple(_rule(path, number, row) for number, row in enumerate(rows, 1))
    names = [rule.name for rule in rules]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigurationError(f"{path.name} is not right: two rules have the name {', '.join(twice)}.")
    _check_cycles(path, rules)
    return rules


def check_agents(rules: Sequence[Rule], agents: Collection[str]) -> None:
    """Checks that each rule names an agent that there is.

    Raises:
        ConfigurationError: one does not.
    """
    for rule in rules:
        if rule.agent not in agents:
            why = f"rule {rule.name!r}: agent: there is no agent {rule.agent!r}"
            raise ConfigurationError(f"{TRIGGERS_FILE} is not right: {why}.")


def check_places(rules: Sequence[Rule]) -> None:
    """Checks that this deployment lets results go where rules say.

    Raises:
        ConfigurationError: it does not; each run of that rule would be refused.
    """
    for rule in rules:
        try:
            if rule.reply_to:
                check_reply_to(rule.reply_to)
        except InvalidRequest as error:
            raise ConfigurationError(f"{TRIGGERS_FILE} is not right: rule {rule.name!r}: {error.message}") from error


def rule_for(event: Event, rules: Sequence[Rule]) -> Rule | None:
    """The first rule that an event matches: one event starts one run."""
    return next((rule for rule in rules if matches(rule.match, event.content)), None)


def _check_cycles(path: Path, rules: Sequence[Rule]) -> None:
    if cycle := cycle_of((rule.match, rule.agent) for rule in rules):
        in_it = [rule.name for rule in rules if rule.agent in cycle and agents_heard(rule.match) & set(cycle)]
        why = f"rule {', '.join(map(repr, in_it))}: match.detail.agent: runs would start each other for ever"
        raise ConfigurationError(f"{path.name} is not right: {why} ({' → '.join(cycle)}).")


def _rule(path: Path, number: int, row: Any) -> Rule:
    try:
        return Rule.model_validate(row)
    except ValidationError as error:
        name = row.get("name", number) if isinstance(row, dict) else number
        raise ConfigurationError(f"{path.name} is not right: rule {name!r}: {in_words(error, Rule)}.") from error
