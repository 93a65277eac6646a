"""The plan of a run as a list that is ticked off: which steps wait, go on and are over, and how long each took."""

from collections.abc import Callable, Iterator

from rich.text import Text

from local.plan_news import StepNews
from local.view import shortened
from stepagent.planning.plan import Plan, Step, StepStatus

_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_FRAMES_A_SECOND = 10
_MARKS = {
    StepStatus.PENDING: ("☐", "dim"),
    StepStatus.IN_PROGRESS: ("", "cyan"),  # the spinner
    StepStatus.DONE: ("✔", "green"),
    StepStatus.BLOCKED: ("✖", "red"),
    StepStatus.SKIPPED: ("⤼", "dim"),
}
_WORDS = {StepStatus.PENDING: "dim", StepStatus.IN_PROGRESS: "bold", StepStatus.SKIPPED: "dim"}
_UNENDED = (StepStatus.PENDING, StepStatus.IN_PROGRESS)


class Checklist:
    """A plan while it is carried out. `clock` tells seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._plan: Plan | None = None
        self._began: dict[str, float] = {}
        self._took: dict[str, float] = {}
        self._news: dict[str, StepNews] = {}

    @property
    def has_begun(self) -> bool:
        """Whether a step goes on."""
        return self._plan is not None and bool(self._plan.having(StepStatus.IN_PROGRESS))

    def show(self, plan: Plan) -> None:
        self._plan = plan
        for step in plan.having(StepStatus.PENDING):  # one that was changed begins anew
            self._took.pop(step.id, None)
            self._news.pop(step.id, None)

    def hear(self, news: StepNews) -> None:
        """A step of the plan stands otherwise; of others nothing is known."""
        if news.status is StepStatus.IN_PROGRESS:
            self._began[news.step_id] = self._clock()
        elif news.step_id in self._began:
            self._took[news.step_id] = self._clock() - self._began.pop(news.step_id)
        self._news[news.step_id] = news
        if self._plan is not None:
            named = (step for step in self._plan.steps if step.id == news.step_id)
            self._plan = self._plan.marked(news.status, named)

    def lines(self, *, ended: bool = False) -> Iterator[Text]:
        """A line for each step. Where the plan has `ended` nothing goes on, and what never ran is skipped."""
        for step in self._plan.steps if self._plan else ():
            yield self._line(step, StepStatus.SKIPPED if ended and step.status in _UNENDED else step.status)

    def _line(self, step: Step, status: StepStatus) -> Text:
        mark, style = _MARKS[status]
        if status is StepStatus.IN_PROGRESS:
            mark = _SPINNER[int(self._clock() * _FRAMES_A_SECOND) % len(_SPINNER)]
        # Models write titles: nothing in them drives the terminal.
        words = shortened(step.heading if status is StepStatus.PENDING else f"{step.id}. {step.title}")
        parts = [(f"  {mark} ", style), (words, _WORDS.get(status, "")), (self._time(step, status), "dim")]
        return Text.assemble(*parts, *self._said(step, status))

    def _time(self, step: Step, status: StepStatus) -> str:
        if status is StepStatus.IN_PROGRESS and (since := self._began.get(step.id)) is not None:
            attempt = self._news[step.id].attempt
            again = f" · try {attempt}" if attempt > 1 else ""
            return f"{again} · {self._clock() - since:.0f} s"
        return f" · {self._took[step.id]:.1f} s" if step.id in self._took else ""

    def _said(self, step: Step, status: StepStatus) -> Iterator[tuple[str, str]]:
        """What came of it; of one that failed, and perhaps is tried again, why."""
        news = self._news.get(step.id)
        if news and news.text and status is not StepStatus.IN_PROGRESS:
            yield f": {shortened(news.text)}", "dim" if status is StepStatus.DONE else "red"
