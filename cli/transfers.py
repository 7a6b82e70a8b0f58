"""How far a transfer is, on stderr: a live line on a terminal, else a line when it is through."""

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self, TextIO

from mlscope.client.quantities import shown

_CLEAR = "\r\x1b[K"
_BETWEEN_S = 0.1
_BAR = 24


class TransferLine:
    """Shows one file's transfer; use as a context, so that the line is ended."""

    def __init__(
        self, stream: TextIO, name: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Name the stream and the file; `clock` counts seconds."""
        self._stream, self._name, self._clock = stream, name, clock
        self._is_live = stream.isatty()
        self._began_s = self._spoke_s = clock()
        self._here_bytes = 0

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        _: BaseException | None,
        __: TracebackType | None,
    ) -> None:
        """Clear the live line and say what came."""
        clear = _CLEAR if self._is_live else ""
        said = "" if kind is not None else f"{transfer_text(self._name, self._here_bytes, None)}\n"
        self._write(clear + said)

    def show(self, here_bytes: int, whole_bytes: int | None) -> None:
        """Say how many bytes are here, of how many, if known; called often."""
        self._here_bytes = here_bytes
        now_s = self._clock()
        if self._is_live and now_s - self._spoke_s >= _BETWEEN_S:
            self._spoke_s = now_s
            rate = here_bytes / max(now_s - self._began_s, 1e-9)
            text = transfer_text(self._name, here_bytes, whole_bytes)
            self._write(f"{_CLEAR}{text}  {shown(rate, 'B')}/s")

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def transfer_text(name: str, here_bytes: int, whole_bytes: int | None) -> str:
    """Return a transfer in one line, with a bar where the whole is known."""
    if not whole_bytes:
        return f"{name}  {shown(here_bytes, 'B')}"
    full = min(_BAR * here_bytes // whole_bytes, _BAR)
    bar = "#" * full + "." * (_BAR - full)
    return f"{name}  [{bar}] {shown(here_bytes, 'B')} of {shown(whole_bytes, 'B')}"
