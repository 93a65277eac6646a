"""How a peer is asked: a JSON line on standard input, and on standard output one with when it began and ended."""

import json
import sys
import time
from collections.abc import Callable

INSTRUCTIONS = "Use the calculator."


def multiply(expression: str) -> str:
    """The tool's work, the same for all: `3*4` is 12."""
    left, right = expression.split("*")
    return str(int(left) * int(right))


def serve(ask: Callable[[str, str], str]) -> None:
    """Answers questions, each with its session, until standard input ends."""
    answers, sys.stdout = sys.stdout, sys.stderr  # whatever a library prints is no answer
    for line in sys.stdin:
        session, question = json.loads(line)
        began = time.time()
        answer = ask(session, question)
        print(json.dumps([began, time.time(), answer]), file=answers, flush=True)
