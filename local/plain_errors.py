"""Errors of commands as sentences, never a traceback, and signals as an orderly end."""

import os
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.text import Text

from local import stack

Verbose = Annotated[bool, typer.Option("--verbose", "-v", envvar="STEPAGENT_DEBUG", help="Show tracebacks.")]

INTERRUPTED, UNREAD = 130, 141  # what shells say for SIGINT and SIGPIPE


@contextmanager
def plain_errors(verbose: bool) -> Iterator[None]:
    """Turns what can go wrong into sentences, and signals into an orderly end."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    try:
        yield
    except (typer.Exit, SystemExit):
        raise
    except KeyboardInterrupt:
        fail("Stopped.", INTERRUPTED)
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(UNREAD) from None
    except Exception as error:
        if verbose:
            raise
        fail(*_explain(error))


def _leave(number: int, _: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


def _explain(error: Exception) -> tuple[str, int]:
    from local.api_client import ApiError
    from local.chat import NOT_ANSWERED
    from local.prompts import NobodyAnswers

    if isinstance(error, ApiError):
        return f"{error}\nLogs: {stack.home()}/*.log", 1
    if isinstance(error, RuntimeError):  # every error of ours is one, and its message is made for people
        return str(error), NOT_ANSWERED if isinstance(error, NobodyAnswers) else 1
    log = stack.home() / "client.log"
    log.write_text("".join(traceback.format_exception(error)))
    return f"Something unexpected happened ({type(error).__name__}: {error}).\nDetails: {log}", 1


def fail(message: str, code: int) -> NoReturn:
    Console(stderr=True, highlight=False).print(Text(message, style="red"), soft_wrap=True)
    raise typer.Exit(code)
