"""The command line: `python -m local.cli chat|inbox|batch|runs|show|replay|up|down|status|keys`."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from local import batch_commands, key_commands, run_commands, stack
from local.door_process import Running
from local.plain_errors import Verbose, plain_errors
from local.terminal import drop_unread_stderr

if TYPE_CHECKING:
    from local.prompts import Prompts

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True, help=__doc__)
app.add_typer(batch_commands.app, name="batch")
app.add_typer(key_commands.app, name="keys")
for _command in (run_commands.runs, run_commands.show, run_commands.replay):
    app.command()(_command)


@app.command()
def chat(
    question: Annotated[str, typer.Argument(envvar="STEPAGENT_QUESTION", help="Ask this and end.")] = "",
    agent: Annotated[str, typer.Option(envvar="STEPAGENT_AGENT", help="Who answers.")] = "assistant",
    strategy: Annotated[str, typer.Option(help="How: react, plan or auto. Without it the agent's own way.")] = "",
    verbose: Verbose = False,
) -> None:
    """Talk to an agent, on the running stack or on one that ends with this command."""
    from local.api_client import ApiClient
    from local.chat import Chat, read_line

    with plain_errors(verbose), _running_stack() as handle, ApiClient(handle.running.base_url) as client:
        console = Console(highlight=False)
        tied = handle.fresh and handle.running.tied
        prompts = _prompts(console)
        conversation = Chat(client, console, read_line, prompts, agent=agent, strategy=strategy, tied=tied)
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

    with plain_errors(verbose):
        running = stack.find(stack.home())
        if running is None:
            raise RuntimeError("Nothing is running, so nothing can be answered. `make up` starts the stack.")
        console = Console(highlight=False)
        with ApiClient(running.base_url) as client:
            Inbox(client, console, _prompts(console)).serve()


@app.command()
def up(verbose: Verbose = False) -> None:
    """Start the stack and leave it running."""
    with plain_errors(verbose):
        handle = _bring_up(tied=False)
        typer.echo(("Up." if handle.fresh else "Already up.") + "\n" + _how_to_use(handle.running))


@app.command()
def down(verbose: Verbose = False) -> None:
    """Stop the stack; its data is kept."""
    with plain_errors(verbose):
        typer.echo("Stopped." if stack.down(stack.home()) else "Nothing was running.")


@app.command()
def status(verbose: Verbose = False) -> None:
    """Tell what runs, and where; exit code 1 when nothing does."""
    with plain_errors(verbose):
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

    choice, screen = choose(os.environ), Console(stderr=True, highlight=False)
    handle = stack.up(stack.home(), choice, screen, tied=tied)
    if tied and handle.fresh and not choice.embedded:  # what a start shows of the embedded one, and `up` of any
        screen.print(f"Model: {choice.label}", style="dim", markup=False, soft_wrap=True)
    return handle


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


def main() -> None:
    drop_unread_stderr()
    app()


if __name__ == "__main__":
    main()
