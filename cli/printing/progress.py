"""Progress on stderr: a live line on a terminal, else a line for each change, rate-limited."""

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self, TextIO

from mlscope.client.watching import Progress
from mlscope.evaluation.run import RUN_ENDED
from mlscope.quantities import shown
from schemas.status import EvaluationStatus, RunStatus

_LINE_S = 5.0
"""Between two plain lines of the same stage."""
_ALIVE_S = 30.0
"""Between two equal plain lines."""
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
        """Show `progress`, if it has changed or a line is due."""
        if self._quiet:
            return
        status, text = progress.status, progress_text(progress)
        runs = _current_runs(status)
        stage = f"{status.state} {runs[0].run if runs else ''}"
        if self._is_live:
            seconds = int(self._clock() - self._start_s)
            self._write(f"{_CLEAR}{text}  {seconds} s")
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
            self._write(f"{_CLEAR}{text}\n" if self._is_live else f"{text}\n")

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def _current_runs(status: EvaluationStatus) -> list[RunStatus]:
    """Return the current runs: those whose blocks alternate are current together."""

    def load(run: RunStatus) -> tuple[str, str, int]:
        return run.agent, run.scenario, run.batch_size

    active_states = ("started", "interrupted")
    active = [run for run in status.runs if run.state in active_states and not run.final]
    return [run for run in active if load(run) == load(active[0])]


def progress_text(progress: Progress) -> str:
    """Return the progress of an evaluation in one line."""
    status = progress.status
    parts: list[str] = [status.state]
    ended = sum(run.state in RUN_ENDED or run.final for run in status.runs)
    if status.runs:
        parts.append(f"{ended}/{len(status.runs)} runs")
    runs = _current_runs(status)
    if runs:
        levels = "+".join(dict.fromkeys(run.level.name.lower() for run in runs))
        parts.append(f"{runs[0].scenario} batch {runs[0].batch_size} {levels}")
    readings = [progress.readings[run.run] for run in runs if run.run in progress.readings]
    if readings:
        parts.append(f"{sum(reading.answered for reading in readings)} queries")
        if readings[0].p50_ns >= 0:
            parts.append(f"p50 {shown(readings[0].p50_ns, 'ns')}")
    if status.state == "postponed":
        parts.append("waiting for a suitable agent")
    return "  ".join(parts)
