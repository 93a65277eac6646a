"""`python -m local.cli batch run|status|results|cancel`: a file of inputs, each answered by a run of its own."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from local import stack
from local.plain_errors import INTERRUPTED, Verbose, plain_errors

if TYPE_CHECKING:
    from local.api_client import ApiClient

_CLI = ".local/venv/bin/python -m local.cli"  # for what has no `make` command

app = typer.Typer(no_args_is_help=True, help="Answer a file of inputs, many at once.")
BatchId = Annotated[str, typer.Argument(metavar="ID", help="The batch's id, as `batch run` says it.")]


@app.command()
def run(
    file: Annotated[Path, typer.Argument(help="JSONL, or CSV with columns id and input.")],
    agent: Annotated[str, typer.Option(envvar="STEPAGENT_AGENT", help="Who answers.")] = "assistant",
    batch_id: Annotated[str, typer.Option("--id", help="Another id than that of the file: begins anew.")] = "",
    concurrency: Annotated[int, typer.Option(min=1, max=1000, help="Inputs at once.")] = 10,
    tolerate: Annotated[int | None, typer.Option(min=0, help="Failures before it stops; any number without.")] = None,
    verbose: Verbose = False,
) -> None:
    """Answer every input of a file, and write what came of them beside it; the same file again goes on."""
    from local import batch_files, batch_on_screen
    from local.model_choice import choose

    with plain_errors(verbose):
        inputs = batch_files.read_input_file(file)
        screen = Console(stderr=True, highlight=False)
        # Ctrl-C leaves the batch running, so the stack must outlive this command.
        handle = stack.up(stack.home(), choose(os.environ), screen, tied=False)
        with _client(handle.running.base_url) as client:
            body = {"agent": agent, "source": {"key": batch_files.upload(inputs)}, "max_concurrency": concurrency}
            body |= {"batch_id": batch_id or f"{inputs.name}-{agent}"[:64]}
            body |= {} if tolerate is None else {"tolerated_failure_count": tolerate}
            begun = client.begin_batch(body)
            name = begun["batch_id"]
            screen.print(f"Batch {name}. Ctrl-C leaves it running.", style="dim")
            try:
                ended = batch_on_screen.follow(lambda: client.read_batch(name), screen)
            except KeyboardInterrupt:
                again = (
                    f"The same command again follows it to its end; `{_CLI} batch status {name}` tells how it stands."
                )
                screen.print(f"It goes on. {again}")
                raise typer.Exit(INTERRUPTED) from None
            _write(client, name, file)
            typer.echo(batch_on_screen.in_words(ended))
        if handle.fresh:
            screen.print("The stack stays up; `make down` stops it.", style="dim")
        raise typer.Exit(0 if batch_on_screen.is_good(ended) else 1)


@app.command()
def status(batch_id: BatchId, verbose: Verbose = False) -> None:
    """Tell how a batch stands; exit code 1 where it ended with less than all answers."""
    from local import batch_on_screen

    with plain_errors(verbose), _running_client() as client:
        batch = client.read_batch(batch_id)
        typer.echo(batch_on_screen.in_words(batch))
        raise typer.Exit(0 if batch["ended_at"] is None or batch_on_screen.is_good(batch) else 1)


@app.command()
def results(
    batch_id: BatchId,
    file: Annotated[Path, typer.Argument(help="Beside which they are written, as `batch run` does.")],
    verbose: Verbose = False,
) -> None:
    """Write what came of a batch that has ended."""
    with plain_errors(verbose), _running_client() as client:
        _write(client, batch_id, file)


@app.command()
def cancel(batch_id: BatchId, verbose: Verbose = False) -> None:
    """End a batch and its runs."""
    from local import batch_on_screen

    with plain_errors(verbose), _running_client() as client:
        typer.echo(batch_on_screen.in_words(client.cancel_batch(batch_id)))


def _write(client: "ApiClient", batch_id: str, file: Path) -> None:
    from local.batch_files import beside, write_lines

    for kind, name in (("succeeded", "results"), ("failed", "failures")):
        path = beside(file, name)
        typer.echo(f"{write_lines(path, client.batch_results(batch_id, kind))} {name} in {path}")


@contextmanager
def _client(base_url: str) -> Iterator["ApiClient"]:
    from local.api_client import ApiClient

    with ApiClient(base_url) as client:
        yield client


@contextmanager
def _running_client() -> Iterator["ApiClient"]:
    running = stack.find(stack.home())
    if running is None:
        raise RuntimeError("Nothing is running. `make up` starts the stack.")
    with _client(running.base_url) as client:
        yield client
