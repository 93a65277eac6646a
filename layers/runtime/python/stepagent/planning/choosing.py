"""How an agent works on one question, where it leaves that to its model. Pure: the model is handed in."""

from collections.abc import Sequence

from stepagent.messages import Message
from stepagent.planning import words
from stepagent.planning.reading import read_as
from stepagent.runs import Call, ChosenStrategy, Run
from stepagent.turn import request_of
from stepagent.usable import Ask
from stepagent.usage import Usage

CHOICE_TOKENS = 1_000  # of the reply, most of which only a model needs that reasons first
_UNCLEAR = ChosenStrategy(strategy="react", why="The model did not choose.")


def choose_strategy(run: Run, entries: Sequence[Message | Call], ask: Ask) -> tuple[ChosenStrategy, Usage]:
    """What the model chooses, in one call without tools; step by step where it says nothing that can be used.

    Raises:
        ModelError: the model cannot be asked.
    """
    request = request_of(run, entries, (run.agent.description, words.choosing_words(run.tools)), words.CHOICE_FORM)
    reply = ask(request._replace(closing=words.CHOOSE))
    try:
        return read_as(ChosenStrategy, reply.text), reply.usage
    except ValueError:
        return _UNCLEAR, reply.usage
