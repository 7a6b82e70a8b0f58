"""Progress of a transfer on stderr: a live line on a terminal, else one line at its end."""

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self, TextIO

from mlscope.quantities import shown

_CLEAR = "\r\x1b[K"
_REFRESH_S = 0.1
_BAR = 24


class TransferLine:
    """Shows the transfer of one file; a context manager, which ends the line."""

    def __init__(
        self,
        stream: TextIO,
        name: str,
        clock: Callable[[], float] = time.monotonic,
        *,
        verb: str = "",
    ) -> None:
        """Write to `stream` about the file `name`; `clock` returns seconds.

        With a `verb`, as `sent`, the last line is a sentence, and there is none without a transfer.
        """
        self._stream, self._name, self._clock, self._verb = stream, name, clock, verb
        self._is_live = stream.isatty()
        self._start_s = self._shown_s = clock()
        self._done_bytes = 0

    def __enter__(self) -> Self:
        """Return the line."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        _: BaseException | None,
        __: TracebackType | None,
    ) -> None:
        """Clear the live line and print how much was transferred."""
        clear = _CLEAR if self._is_live else ""
        total = f"{transfer_text(self._name, self._done_bytes, None)}\n"
        if self._verb:
            sentence = f"{self._verb} {self._name}, {shown(self._done_bytes, 'B')}\n"
            total = sentence if self._done_bytes else ""
        self._write(clear if kind is not None else clear + total)

    def show(self, done_bytes: int, total_bytes: int | None) -> None:
        """Show how many bytes are transferred, of `total_bytes` if known; may be called often."""
        self._done_bytes = done_bytes
        now_s = self._clock()
        if self._is_live and now_s - self._shown_s >= _REFRESH_S:
            self._shown_s = now_s
            rate = done_bytes / max(now_s - self._start_s, 1e-9)
            text = transfer_text(self._name, done_bytes, total_bytes)
            self._write(f"{_CLEAR}{text}  {shown(rate, 'B')}/s")

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def transfer_text(name: str, done_bytes: int, total_bytes: int | None) -> str:
    """Return the progress of the file `name` in one line: `done_bytes` of `total_bytes`.

    With a bar when the total is known; None and 0 are unknown.
    """
    if not total_bytes:
        return f"{name}  {shown(done_bytes, 'B')}"
    full = min(_BAR * done_bytes // total_bytes, _BAR)
    bar = "#" * full + "." * (_BAR - full)
    return f"{name}  [{bar}] {shown(done_bytes, 'B')} of {shown(total_bytes, 'B')}"
