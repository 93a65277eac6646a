"""`@tool`: a typed function becomes a Lambda handler that runs one call by its id."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from stepagent.errors import ToolError
from stepagent.tools.execution import execute


class Tool:
    """A tool's function with the handler around it. `function` is the function as it was written."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self._arguments = _arguments_model(function)

    def __call__(self, event: Mapping[str, str], context: object) -> dict[str, str]:
        """The Lambda handler. The event is `{"run_id", "call_id"}`; the result goes to the record, not back."""
        execute(event["run_id"], event["call_id"], self.run)
        return {"call_id": event["call_id"]}

    def run(self, arguments: Mapping[str, Any]) -> Any:
        """Calls the function with the model's arguments, validated and converted to its types.

        Raises:
            ToolError: they do not fit, or the function says that it cannot.
        """
        try:
            values = self._arguments.model_validate(dict(arguments))
        except ValidationError as error:
            problems = "; ".join(f"{'.'.join(map(str, p['loc']))}: {p['msg']}" for p in error.errors()[:5])
            raise ToolError(f"The arguments do not fit: {problems}") from error
        return self.function(**{name: getattr(values, name) for name in type(values).model_fields})


def tool(function: Callable[..., Any]) -> Tool:
    """Makes a Lambda handler of a typed function whose parameters are the tool's arguments."""
    return Tool(function)


def _arguments_model(function: Callable[..., Any]) -> type[BaseModel]:
    hints = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {
        name: (hints.get(name, Any), ... if parameter.default is inspect.Parameter.empty else parameter.default)
        for name, parameter in inspect.signature(function).parameters.items()
    }
    return create_model(function.__name__, __config__=ConfigDict(extra="forbid"), **fields)
