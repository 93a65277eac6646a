"""Asks for one reply: the mode by capability, the conversation cut to what fits, the next model where one fails."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from stepagent.errors import ConfigurationError, ModelBusy, ModelContextExceeded, ModelError, ModelLacksTools
from stepagent.history import estimate_text_tokens, estimate_tokens, fit
from stepagent.llm.function_call import FunctionCall
from stepagent.llm.names import aliases
from stepagent.llm.prompt_call import PromptCall
from stepagent.llm.providers import Witness, send
from stepagent.llm.registry import ModelSpec, modes_of
from stepagent.llm.reply import Listener, Mode, ModelRequest, ModeName, Reply
from stepagent.llm.tool_choice import ToolChoice
from stepagent.messages import UserMessage
from stepagent.observe import logger
from stepagent.usage import Usage


class Wishes(NamedTuple):
    """What an agent asks of its model: a mode, other words for the text protocol, fields of the request."""

    mode: ModeName | None = None
    protocol: str = ""
    fields: Mapping[str, Any] = {}


class Memory(NamedTuple):
    """What is known of models that their catalog rows do not say: the modes that their servers refused."""

    refused: Callable[[ModelSpec], frozenset[ModeName]]
    refuse: Callable[[ModelSpec, ModeName], None]


def ask(
    models: Sequence[ModelSpec], request: ModelRequest, wishes: Wishes, memory: Memory, listener: Listener
) -> Reply:
    """Asks the first model, and the following ones in order where one fails before anything of its reply was seen.

    Raises:
        ModelError: that of the first model that waiting helps, else the last one's; its usage is that of all attempts.
        ConfigurationError: the first model is not set up rightly; a fallback that is not is passed over.
    """
    witness, spent = Witness(listener, shows_text=not request.form), Usage()
    failures: list[ModelError] = []
    for model in models:
        try:
            reply = _ask_model(model, request, wishes, memory, witness)
        except ModelError as error:
            spent = error.usage = spent + error.usage
            if witness.seen:
                raise
            failures.append(error)
        except ConfigurationError:
            if not failures:
                raise
            logger.exception("fallback is not set up rightly", extra={"model": model.name})
        else:
            return reply._replace(usage=spent + reply.usage, vendor=model.server)
    if not failures:
        raise ValueError("no model to ask")
    failure = next((each for each in failures if isinstance(each, ModelBusy)), failures[-1])
    failure.usage = spent
    raise failure


def _ask_model(model: ModelSpec, request: ModelRequest, wishes: Wishes, memory: Memory, witness: Witness) -> Reply:
    """Asks one model, one mode further down where its server refuses tools; that is remembered."""
    if wishes.mode:
        return _ask_fitting(model, _mode(wishes.mode, wishes, model), request, wishes, witness)
    *better, last = modes_of(model, memory.refused(model))
    for name in better:
        try:
            return _ask_fitting(model, _mode(name, wishes, model), request, wishes, witness)
        except ModelLacksTools:
            if not request.tools:
                raise
            memory.refuse(model, name)
    return _ask_fitting(model, _mode(last, wishes, model), request, wishes, witness)


def _mode(name: ModeName, wishes: Wishes, model: ModelSpec) -> Mode:
    match name:
        case "tool_choice":
            return ToolChoice(model)
        case "function_call":
            return FunctionCall(model)
        case "prompt_call":
            return PromptCall(wishes.protocol)


def _ask_fitting(model: ModelSpec, mode: Mode, request: ModelRequest, wishes: Wishes, witness: Witness) -> Reply:
    """Sends what fits into the model's context, and half of that once more where the provider says it did not fit."""
    spent = Usage()
    for fields in _requests(model, mode, request, wishes):
        try:
            reply = send(model, fields, mode.reader(request, witness), witness)
        except ModelContextExceeded as error:
            spent = error.usage = spent + error.usage
            overflow = error
        else:
            origin = reply.origin._replace(
                model=model.name, provider=model.vendor, requested=model.provider_model, mode=mode.name
            )
            return reply._replace(usage=spent + reply.usage, origin=origin)
    raise overflow


def _requests(model: ModelSpec, mode: Mode, request: ModelRequest, wishes: Wishes) -> Iterator[dict[str, Any]]:
    """The request as large as it may be, and one with half of its conversation; never the same again."""
    names = aliases([tool.name for tool in request.tools])
    closing = [UserMessage(text=request.closing)] if request.closing else []
    around = json.dumps(mode.render(request._replace(messages=closing), names), ensure_ascii=False)
    budget = model.context_tokens - model.output_tokens - estimate_text_tokens(around)
    # Many servers take not both, tools and a form, and a call in the text protocol has another one.
    form = request.form.request_field(model.response_format) if request.form and not request.tools else {}
    previous = None
    for _ in range(2):
        messages = fit(request.messages, budget)
        fields = mode.render(request._replace(messages=[*messages, *closing]), names)
        if fields != previous:
            yield {**wishes.fields, **form, **fields}
        previous = fields
        # The context may be smaller than its row says, so what was refused counts, not what should have fitted.
        budget = min(budget, sum(map(estimate_tokens, messages))) // 2
