"""The command line: `python -m local.cli chat|inbox|up|down|status|keys`. Errors are sentences, never a traceback."""

import os
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from rich.console import Console
from rich.text import Text

from local import key_commands, stack
from local.door_process import Running

if TYPE_CHECKING:
    from local.prompts import Prompts

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True, help=__doc__)
app.add_typer(key_commands.app, name="keys")
Verbose = Annotated[bool, typer.Option("--verbose", "-v", envvar="STEPAGENT_DEBUG", help="Show tracebacks.")]

INTERRUPTED, UNREAD = 130, 141  # what shells say for SIGINT and SIGPIPE


@app.command()
def chat(
    question: Annotated[str, typer.Argument(envvar="STEPAGENT_QUESTION", help="Ask this and end.")] = "",
    agent: Annotated[str, typer.Option(envvar="STEPAGENT_AGENT", help="Who answers.")] = "assistant",
    verbose: Verbose = False,
) -> None:
    """Talk to an agent, on the running stack or on one that ends with this command."""
    from local.api_client import ApiClient
    from local.chat import Chat, read_line

    with _plain_errors(verbose), _running_stack() as handle, ApiClient(handle.running.base_url) as client:
        console = Console(highlight=False)
        tied = handle.fresh and handle.running.tied
        conversation = Chat(client, console, read_line, _prompts(console), agent=agent, tied=tied)
        if question.strip():
            raise typer.Exit(conversation.ask(question))
        if sys.stdin.isatty():
            import readline  # noqa: F401 (line editing and history for `input`)

            Console(stderr=True).print("Ask something. /help lists the commands, Ctrl-D ends.", style="dim")
        raise typer.Exit(conversation.converse())


@app.command()
def inbox(verbose: Verbose = False) -> None:
    """List the questions that wait for you, in all sessions, and answer them."""
    from local.api_client import ApiClient
    from local.inbox import Inbox

    with _plain_errors(verbose):
        running = stack.find(stack.home())
        if running is None:
            raise RuntimeError("Nothing is running, so nothing can be answered. `make up` starts the stack.")
        console = Console(highlight=False)
        with ApiClient(running.base_url) as client:
            Inbox(client, console, _prompts(console)).serve()


@app.command()
def up(verbose: Verbose = False) -> None:
    """Start the stack and leave it running."""
    with _plain_errors(verbose):
        handle = _bring_up(tied=False)
        typer.echo(("Up." if handle.fresh else "Already up.") + "\n" + _how_to_use(handle.running))


@app.command()
def down(verbose: Verbose = False) -> None:
    """Stop the stack; its data is kept."""
    with _plain_errors(verbose):
        typer.echo("Stopped." if stack.down(stack.home()) else "Nothing was running.")


@app.command()
def status(verbose: Verbose = False) -> None:
    """Tell what runs, and where; exit code 1 when nothing does."""
    with _plain_errors(verbose):
        running = stack.find(stack.home())
        typer.echo(_how_to_use(running) if running else "Nothing is running. `make up` or `make chat` starts it.")
        raise typer.Exit(0 if running else 1)


@contextmanager
def _running_stack() -> Iterator[stack.Handle]:
    handle = _bring_up(tied=True)
    try:
        yield handle
    finally:
        if handle.fresh and handle.running.tied:
            stack.down(stack.home())


def _bring_up(*, tied: bool) -> stack.Handle:
    from local.model_choice import choose

    return stack.up(stack.home(), choose(os.environ), Console(stderr=True, highlight=False), tied=tied)


def _prompts(console: Console) -> "Prompts":
    """With arrow keys where there is a person at a terminal, lines where not."""
    if sys.stdin.isatty() and console.is_terminal:
        from local.terminal_prompts import TerminalPrompts

        return TerminalPrompts(console)
    from local.chat import read_line
    from local.prompts import LinePrompts

    return LinePrompts(console, read_line)


def _how_to_use(running: Running) -> str:
    body = '{"model": "assistant", "messages": [{"role": "user", "content": "What is 17*23?"}]%s}'
    curl = f"curl {running.base_url}/chat/completions -H 'Content-Type: application/json' \\\n    -d"
    return f"""
  Base URL    {running.base_url}   (any OpenAI client; any key)
  Model       {running.model}
  Logs        {stack.home()}/*.log

  {curl} '{body % ""}'
  {curl.replace("curl ", "curl -N ")} '{body % ', "stream": true'}'

  make chat   talks to it      make inbox  answers its questions      make down   stops it
"""


@contextmanager
def _plain_errors(verbose: bool) -> Iterator[None]:
    """Turns what can go wrong into sentences, and signals into an orderly end."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    try:
        yield
    except (typer.Exit, SystemExit):
        raise
    except KeyboardInterrupt:
        _fail("Stopped.", INTERRUPTED)
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(UNREAD) from None
    except Exception as error:
        if verbose:
            raise
        _fail(*_explain(error))


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


def _fail(message: str, code: int) -> NoReturn:
    Console(stderr=True, highlight=False).print(Text(message, style="red"), soft_wrap=True)
    raise typer.Exit(code)


def main() -> None:
    app()


if __name__ == "__main__":
    main()
