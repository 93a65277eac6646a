"""`python -m local.cli keys create|list|revoke`: keys of the API, on the local stack or on a deployed one."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

_PIPE_COLUMNS = 240  # whoever reads from a pipe wants a key on a line

app = typer.Typer(no_args_is_help=True, help="Make, list and revoke keys of the API.")
Stack = Annotated[str, typer.Option(envvar="STEPAGENT_STACK", help="A deployed stack. Without it: the local one.")]


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="Who will use it; sessions and runs belong to this name.")],
    scope: Annotated[list[str] | None, typer.Option(help="catalog: may change agents and tools.")] = None,
    max_cost_usd: Annotated[str, typer.Option(help="US dollars that runs may cost in each period.")] = "",
    max_total_tokens: Annotated[
        int | None, typer.Option(min=1, help="Tokens that they may use in each period.")
    ] = None,
    per: Annotated[str, typer.Option(help="The period: day or month, in UTC.")] = "month",
    expires_in_days: Annotated[int | None, typer.Option(min=1, max=3650, help="It never expires without this.")] = None,
    usage_plan: Annotated[str, typer.Option(help="Id of another usage plan of the API than that of the stack.")] = "",
    stack: Stack = "",
    entry: Annotated[bool, typer.Option("--entry", help="Store nothing, print an entry for ApiKeyHashes.")] = False,
) -> None:
    """Make a key. It is shown this once: only its hash is stored."""
    from local import keys

    with _plain_errors():
        terms = keys.Terms.of(name, scope or (), keys.new_budget(per, max_cost_usd, max_total_tokens), expires_in_days)
        made = keys.list_in_parameter(terms) if entry else keys.make(terms, stack, usage_plan)
        typer.echo(f"{made.note} Shown this once:", err=True)
        typer.echo(made.key)


@app.command("list")
def list_all(stack: Stack = "") -> None:
    """List all keys, also those that are valid no more."""
    from rich.console import Console

    from local import keys

    with _plain_errors():
        keys.enter(stack)
        Console(highlight=False, width=None if sys.stdout.isatty() else _PIPE_COLUMNS).print(keys.table())


@app.command()
def revoke(
    key: Annotated[str, typer.Argument(metavar="KEY", help="Its id, as `keys list` shows it: key_…")],
    stack: Stack = "",
) -> None:
    """Make a key invalid. The API refuses it a minute later at most; runs that go on already go on."""
    from local import keys

    with _plain_errors():
        typer.echo(keys.revoke(key, stack))


@contextmanager
def _plain_errors() -> Iterator[None]:
    """Turns what can go wrong into a sentence."""
    from local.keys import KeysUnavailable
    from stepagent.errors import StepAgentError

    try:
        yield
    except (KeysUnavailable, StepAgentError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
