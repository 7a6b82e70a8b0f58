"""Progress on stderr: a live line on a terminal, else a line for each change, rate-limited."""

import math
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO

from cli.printing.output import width_of
from mlscope.client.watching import Progress
from mlscope.evaluation.run import RUN_ENDED
from mlscope.quantities import shown
from mlscope.texts.printable import printable_lines
from schemas.status import EvaluationStatus, RunStatus

if TYPE_CHECKING:
    from mlscope.client.meter import Reading

_LINE_S = 5.0
"""Between two plain lines of the same stage."""
_ALIVE_S = 30.0
"""Between two equal plain lines."""
_BAR_WIDTH = 20
_CLEAR = "\r\x1b[K"


class ProgressLine:
    """Shows the progress of an evaluation; a context manager, which clears the live line."""

    def __init__(
        self,
        stream: TextIO,
        *,
        quiet: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Write to `stream`, unless `quiet`; `clock` returns seconds."""
        self._stream = stream
        self._is_live = stream.isatty()
        self._quiet = quiet
        self._clock = clock
        self._start_s = clock()
        self._printed_s = float("-inf")
        self._stage = ""
        self._line = ""
        self._has_noted = False

    def __enter__(self) -> Self:
        """Return the line."""
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        """Clear the live line."""
        if self._is_live and not self._quiet and self._stage:
            self._write(_CLEAR)

    def show(self, progress: Progress) -> None:
        """Show `progress`, if it has changed or a line is due; what its plan notes stays."""
        if self._quiet:
            return
        status, text = progress.status, progress_text(progress)
        for note in status.notes if not self._has_noted else ():
            self.note(f"note: {note}")
        self._has_noted |= bool(status.notes)
        runs = _current_runs(status)
        stage = f"{status.state} {runs[0].run if runs else ''}"
        if self._is_live:
            elapsed_s = self._clock() - self._start_s
            bar = f"{bar_text(status)}  " if status.runs else ""
            line = f"{text}  {int(elapsed_s)} s{time_left_text(status, elapsed_s)}"
            self._write(_CLEAR + fitting(bar, line, width_of(self._stream)))
            self._stage = stage
            return
        is_between_runs = status.state == "running" and not runs
        has_news = stage != self._stage and not is_between_runs
        pause_s = _ALIVE_S if text == self._line else _LINE_S
        if has_news or self._clock() - self._printed_s >= pause_s:
            self._printed_s, self._line = self._clock(), text
            self._write(f"{text}\n")
        self._stage = stage

    def note(self, text: str) -> None:
        """Print a line that stays."""
        if not self._quiet:
            self._write(f"{_CLEAR if self._is_live else ''}{printable_lines(text)}\n")

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


class LatestReadings:
    """What was last heard of each run: what a cancelled evaluation without tables has to show."""

    def __init__(self) -> None:
        """Begin with nothing heard."""
        self._readings: dict[str, Reading] = {}

    def after(self, show: Callable[[Progress], None]) -> Callable[[Progress], None]:
        """Return `show`, with what it shows kept."""

        def show_and_keep(progress: Progress) -> None:
            self._readings |= progress.readings
            show(progress)

        return show_and_keep

    def lines(self, evaluation: str, *, is_analyzed: bool = False) -> Iterator[str]:
        """Yield a line for each run with answers so far, and where to look at an `evaluation`.

        One that `is_analyzed` has tables, which say more of its runs.
        """
        for reading in () if is_analyzed else self._readings.values():
            if reading.answered:
                p50, p90 = shown(reading.p50_ns, "ns"), shown(reading.p90_ns, "ns")
                queries = f"{reading.answered} queries, {reading.failed} failed"
                yield f"  {reading.run}: {queries}, p50 {p50}, p90 {p90} (live, not analyzed)"
        commands = (
            f"`mlscope show {evaluation}` lists its runs, `mlscope open {evaluation}` its page"
        )
        yield f"kept: {commands}"


def _current_runs(status: EvaluationStatus) -> list[RunStatus]:
    """Return the current runs: those whose blocks alternate are current together."""

    def load(run: RunStatus) -> tuple[str, str, int]:
        return run.agent, run.scenario, run.batch_size

    active_states = ("started", "interrupted")
    active = [run for run in status.runs if run.state in active_states and not run.final]
    return [run for run in active if load(run) == load(active[0])]


def _ended_runs(status: EvaluationStatus) -> int:
    return sum(run.state in RUN_ENDED or run.final for run in status.runs)


def fitting(bar: str, line: str, width: int) -> str:
    """Return `bar` and `line` if both fit into `width` columns, else as much of the line as fits.

    A longer line would wrap, and clearing it would leave its beginning behind.
    """
    if len(bar) + len(line) < width:
        return bar + line
    return line if len(line) < width else f"{line[: max(width - 2, 0)]}…"


def bar_text(status: EvaluationStatus) -> str:
    """Return a bar of the runs that have ended."""
    filled = _BAR_WIDTH * _ended_runs(status) // len(status.runs)
    return "█" * filled + "░" * (_BAR_WIDTH - filled)


def time_left_text(status: EvaluationStatus, elapsed_s: float) -> str:
    """Return an estimate of the time left, as if further runs take as long as those that ended.

    '' where none has ended yet, or all have. `elapsed_s` seconds have passed.
    """
    ended = _ended_runs(status)
    if not 0 < ended < len(status.runs):
        return ""
    return f", about {math.ceil(elapsed_s / ended * (len(status.runs) - ended))} s left"


def progress_text(progress: Progress) -> str:
    """Return the progress of an evaluation in one line."""
    status = progress.status
    parts: list[str] = [status.state]
    if status.runs:
        parts.append(f"{_ended_runs(status)}/{len(status.runs)} runs")
    runs = _current_runs(status)
    if runs:
        levels = "+".join(dict.fromkeys(run.level.name.lower() for run in runs))
        parts.append(f"{runs[0].scenario} batch {runs[0].batch_size} {levels}")
    readings = [progress.readings[run.run] for run in runs if run.run in progress.readings]
    if readings:
        parts.append(f"{sum(reading.answered for reading in readings)} queries")
        if readings[0].p50_ns >= 0:
            parts.append(f"p50 {shown(readings[0].p50_ns, 'ns')}")
    elif runs:
        # Fetches files, opens, warms up: no fact says which of these an agent is at.
        parts.append("preparing the model")
    if status.state == "postponed":
        parts.append("waiting for a suitable agent")
    return "  ".join(parts)
