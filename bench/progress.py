"""A line that moves while something is measured."""

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn


class Steps:
    """Tells how far one measurement is: how many steps it has, and what the present one does."""

    def __init__(self, progress: Progress, name: str) -> None:
        self._progress, self._name, self._begun = progress, name, 0
        self._task: TaskID = progress.add_task(name, total=None)

    def expect(self, steps: int) -> None:
        self._progress.update(self._task, total=steps)

    def begin(self, what: str) -> None:
        """The step before is done."""
        self._progress.update(self._task, completed=self._begun, description=f"{self._name}: {what}")
        self._begun += 1

    def end(self) -> None:
        self._progress.update(self._task, completed=self._begun, total=self._begun, description=self._name)


def progress(console: Console) -> Progress:
    columns = (TimeElapsedColumn(), BarColumn(20), TextColumn("{task.description}"))
    return Progress(*columns, console=console, transient=True)
