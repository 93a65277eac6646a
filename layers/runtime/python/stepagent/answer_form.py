"""The form in which an answer is wanted: JSON, perhaps as a schema says."""

import json
import re
from typing import Any, Literal

from pydantic import Field, field_validator

from stepagent.models import Frozen

_MAX_SCHEMA_CHARS = 64_000
_FENCED = re.compile(r"\s*```(?:json)?[ \t]*\n(.*)\n[ \t]*```\s*", re.DOTALL | re.IGNORECASE)
_ALONE = "Give your answer as JSON alone: no fence, no other word before or behind it."
_CORRECTION = "That is not the form in which the answer is wanted: {why}. Give the same answer again, rightly. {rule}"
_WHY_CHARS = 500


class AnswerForm(Frozen):
    """A JSON object, or with `json_schema` any JSON that fits it. `name` and `description` are for the model.

    `strict` is what providers are asked for that know the word; here an answer is always checked.
    """

    name: str = Field("answer", pattern=r"^[A-Za-z0-9_-]{1,64}$")
    description: str = Field("", max_length=1_000)
    json_schema: dict[str, Any] | None = None
    strict: bool | None = None

    @field_validator("json_schema")
    @classmethod
    def _is_a_schema(cls, schema: dict[str, Any] | None) -> dict[str, Any] | None:
        if schema is None:
            return None
        # Imported here because it takes longer than all of this module, and most answers are wanted in no form.
        from jsonschema import Draft202012Validator, SchemaError  # noqa: PLC0415

        if len(json.dumps(schema)) > _MAX_SCHEMA_CHARS:
            raise ValueError(f"the schema has more than {_MAX_SCHEMA_CHARS} characters")
        try:
            Draft202012Validator.check_schema(schema)
        except (SchemaError, RecursionError) as error:
            raise ValueError(f"it is not a JSON Schema: {str(getattr(error, 'message', error))[:200]}") from error
        return schema

    @property
    def rule(self) -> str:
        """What the model is told about the form."""
        if self.json_schema is None:
            return f"{_ALONE} It must be a JSON object."
        named = f" ({self.description.strip()})" if self.description.strip() else ""
        return f"{_ALONE} It must fit this JSON Schema{named}:\n{json.dumps(self.json_schema, ensure_ascii=False)}"

    def correction(self, why: str) -> str:
        """What the model is told about an answer that has another form."""
        return _CORRECTION.format(why=why, rule=self.rule)

    def request_field(self, taken: Literal["none", "object", "schema"]) -> dict[str, Any]:
        """The request's field, as far as a model takes one."""
        if taken == "none":
            return {}
        if taken == "object" or self.json_schema is None:
            return {"response_format": {"type": "json_object"}} if self._wants_an_object else {}
        more = {"description": self.description or None, "strict": self.strict}
        named = {name: value for name, value in more.items() if value is not None}
        form = {"name": self.name, "schema": self.json_schema, **named}
        return {"response_format": {"type": "json_schema", "json_schema": form}}

    @property
    def _wants_an_object(self) -> bool:
        return self.json_schema is None or self.json_schema.get("type") == "object"

    def read(self, text: str) -> str:
        """The answer in a reply, without a fence around it.

        Raises:
            ValueError: it has another form; the message says how, for the model and for people.
        """
        fenced = _FENCED.fullmatch(text)
        answer = fenced[1].strip() if fenced else text.strip()
        try:
            value = json.loads(answer, parse_constant=_refuse)
        except RecursionError:
            raise ValueError("it is nested too deeply") from None
        except ValueError as error:
            raise ValueError(f"it is not valid JSON ({error})") from None
        if self.json_schema is None and not isinstance(value, dict):
            raise ValueError("it is not a JSON object")
        if self.json_schema is not None:
            _check(value, self.json_schema)
        return answer


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _check(value: Any, schema: dict[str, Any]) -> None:
    from jsonschema import Draft202012Validator  # noqa: PLC0415
    from jsonschema.exceptions import best_match  # noqa: PLC0415
    from referencing import Registry  # noqa: PLC0415
    from referencing.exceptions import Unresolvable  # noqa: PLC0415

    try:  # an empty registry: what a schema refers to elsewhere is not fetched
        problem = best_match(Draft202012Validator(schema, registry=Registry()).iter_errors(value))
    except (Unresolvable, RecursionError) as error:
        raise ValueError(f"its schema cannot be followed ({type(error).__name__})") from error
    if problem is not None:
        raise ValueError(f"{problem.json_path}: {problem.message[:_WHY_CHARS]}")
