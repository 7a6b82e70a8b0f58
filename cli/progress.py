"""Progress on stderr: a live line on a terminal, else a line per change, but not too many."""

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self, TextIO

from mlscope.client.quantities import shown
from mlscope.client.story import RUN_ENDED
from mlscope.client.watching import Progress
from schemas.status import EvaluationStatus, RunStatus

_LINE_S = 5.0
"""Between two plain lines that differ in numbers only."""
_ALIVE_S = 30.0
"""Between two plain lines that are the same."""
_CLEAR = "\r\x1b[K"


class ProgressLine:
    """Shows where an evaluation is; use as a context, so that the live line is ended."""

    def __init__(
        self,
        stream: TextIO,
        *,
        quiet: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Name the stream; a `quiet` line says nothing, `clock` counts seconds."""
        self._stream = stream
        self._is_live = stream.isatty()
        self._quiet = quiet
        self._clock = clock
        self._began_s = clock()
        self._spoke_s = float("-inf")
        self._said = ""
        self._line = ""

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        """Clear the live line."""
        if self._is_live and not self._quiet and self._said:
            self._write(_CLEAR)

    def show(self, progress: Progress) -> None:
        """Say where it is, if there is something new to say or it is time."""
        if self._quiet:
            return
        text = progress_text(progress)
        if self._is_live:
            seconds = int(self._clock() - self._began_s)
            self._write(f"{_CLEAR}{text}  {seconds} s")
        elif self._is_due(progress.status, text):
            self._spoke_s, self._line = self._clock(), text
            self._write(f"{text}\n")
        self._said = _stage(progress.status)

    def note(self, text: str) -> None:
        """Say a line that stays."""
        if not self._quiet:
            self._write(f"{_CLEAR}{text}\n" if self._is_live else f"{text}\n")

    def _is_due(self, status: EvaluationStatus, text: str) -> bool:
        is_between_runs = status.state == "running" and not _current(status)
        has_news = _stage(status) != self._said and not is_between_runs
        least_s = _ALIVE_S if text == self._line else _LINE_S
        return has_news or self._clock() - self._spoke_s >= least_s

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def _stage(status: EvaluationStatus) -> str:
    runs = _current(status)
    return f"{status.state} {runs[0].run if runs else ''}"


def _current(status: EvaluationStatus) -> list[RunStatus]:
    """Return the runs under way: those that take turns, block by block, together."""
    active = [run for run in status.runs if run.state in ("started", "interrupted")]
    return [run for run in active if _load(run) == _load(active[0])]


def _load(run: RunStatus) -> tuple[str, str, int]:
    return run.agent, run.scenario, run.batch_size


def progress_text(progress: Progress) -> str:
    """Return where an evaluation is, in one line."""
    status = progress.status
    parts: list[str] = [status.state]
    ended = sum(run.state in RUN_ENDED for run in status.runs)
    if status.runs:
        parts.append(f"{ended}/{len(status.runs)} runs")
    runs = _current(status)
    if runs:
        levels = "+".join(dict.fromkeys(run.level.name.lower() for run in runs))
        parts.append(f"{runs[0].scenario} batch {runs[0].batch_size} {levels}")
        readings = [progress.readings[run.run] for run in runs if run.run in progress.readings]
        if readings:
            parts.append(f"{sum(reading.answered for reading in readings)} queries")
            if readings[0].p50_ns >= 0:
                parts.append(f"p50 {shown(readings[0].p50_ns, 'ns')}")
    if status.state == "postponed":
        parts.append("waiting for an agent that fits")
    return "  ".join(parts)
