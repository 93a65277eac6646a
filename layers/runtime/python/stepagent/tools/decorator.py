"""`@tool`: a typed function becomes a Lambda handler that runs one call by its id."""

import inspect
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from stepagent.errors import ToolError
from stepagent.models import problems
from stepagent.observe import observed
from stepagent.tools.context import ToolContext
from stepagent.tools.docstring import read_docstring
from stepagent.tools.execution import Invocation, execute
from stepagent.tools.signature import Function, read_signature


class Tool:
    """A tool's function with the handler around it.

    `function` is the function as it was written. `description` and `parameters` (a JSON Schema) are what a model is
    told of it: its docstring and its signature.

    Raises:
        TypeError: the function takes what no model can send; the message names the parameter.
    """

    def __init__(self, function: Function) -> None:
        docstring = read_docstring(function.__doc__)
        self.function = function
        self.description = docstring.text
        self._signature = read_signature(function, docstring.arguments)
        self.parameters = self._signature.parameters
        self._handle = observed(self._execute)

    def __call__(self, event: Mapping[str, str], context: object) -> dict[str, str]:
        """The Lambda handler. The event is `{"run_id", "call_id"}`; the result goes to the record, not back."""
        return self._handle(event, context)

    def run(self, arguments: Mapping[str, Any], context: ToolContext | None = None) -> Any:
        """Calls the function with a model's arguments, validated and converted to its types.

        Raises:
            ToolError: they do not fit, or the function says that it cannot.
            TypeError: the function takes a `ToolContext`, and there is none.
        """
        if self._signature.injected and context is None:
            raise TypeError(f"{self.function.__qualname__} takes a ToolContext: run(arguments, context)")
        try:
            positional, named = self._signature.bind(arguments, context)
        except ValidationError as error:
            raise ToolError(f"The arguments do not fit: {problems(error)}") from error
        return _awaited(self.function(*positional, **named))

    def _execute(self, event: Mapping[str, str], context: object) -> dict[str, str]:
        execute(event["run_id"], event["call_id"], self._answer)
        return {"call_id": event["call_id"]}

    def _answer(self, invocation: Invocation) -> Any:
        run, call = invocation.run, invocation.call
        context = ToolContext(run.run_id, run.session, call.call_id, call.caller, invocation.deadline)
        return self.run(invocation.arguments, context)


def tool(function: Function) -> Tool:
    """Makes a tool of a typed function, async or not.

    Its docstring tells the model what it does, its parameters are the arguments; one of type `ToolContext` is filled
    in by the runtime.
    """
    return Tool(function)


def _awaited(value: Any) -> Any:
    if not inspect.isawaitable(value) and not inspect.isasyncgen(value):
        return value
    from stepagent.tools.asynchronous import wait_for  # noqa: PLC0415 (asyncio, which most tools do without)

    return wait_for(value)
