"""The form in which an answer is wanted: JSON, perhaps as a schema says."""

import json
import re
from typing import Any, Literal

from pydantic import Field

from stepagent.models import Frozen
from stepagent.untrusted_schemas import untrusted_misfit, untrusted_schema_flaw

_FENCED = re.compile(r"\s*```(?:json)?[ \t]*\n(.*)\n[ \t]*```\s*", re.DOTALL | re.IGNORECASE)
_ALONE = "Give your answer as JSON alone: no fence, no other word before or behind it."
_CORRECTION = "That is not the form in which the answer is wanted: {why}. Give the same answer again, rightly. {rule}"


class AnswerForm(Frozen):
    """A JSON object, or with `json_schema` any JSON that fits it. `name` and `description` are for the model.

    `strict` is what providers are asked for that know the word; here an answer is always checked.
    """

    name: str = Field("answer", pattern=r"^[A-Za-z0-9_-]{1,64}$")
    description: str = Field("", max_length=1_000)
    json_schema: dict[str, Any] | None = None
    strict: bool | None = None

    @property
    def flaw(self) -> str | None:
        """Why its schema is not taken, as half a sentence; None where it is. Asked of new ones: the record is read."""
        return None if self.json_schema is None else untrusted_schema_flaw(self.json_schema)

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
        if self.json_schema is not None and (problem := untrusted_misfit(value, self.json_schema)):
            raise ValueError(problem)
        return answer


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")
