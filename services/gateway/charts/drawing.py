"""Pictures of charts: drawn by processes of their own, a few at a time, and remembered."""

import asyncio
import contextlib
import hashlib
import importlib.util
import json
import os
import sys
from collections import OrderedDict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from mlscope.bus.shares import Shares
from mlscope.tasks import end_process
from services.gateway.errors import CannotDraw

HOW_TO_INSTALL = "Charts are drawn where the gateway has them: pip install 'mlscope[charts]'"
_MOST_WAITING = 16
_MOST_BYTES = 32 * 2**20
_LIMIT_S = 20.0
_MOST_STORED_BYTES = 128 * 2**20


def can_draw() -> bool:
    """Tell whether the package that draws is installed."""
    return importlib.util.find_spec("vl_convert") is not None


class Pictures:
    """Draws specifications; equal ones are drawn once, as long as they are remembered."""

    def __init__(self, folder: Path | None = None, pens: int = 1) -> None:
        """Start nothing: a process starts with the first picture.

        Pictures are also stored in `folder`, if there is one; at most `pens` processes draw at a
        time.
        """
        self._folder = folder
        self._pens = [_Pen() for _ in range(pens)]
        self._idle = list(self._pens)
        self._turn = asyncio.Semaphore(pens)
        self._waiting = Shares(_MOST_WAITING)
        self._drawn: OrderedDict[str, bytes] = OrderedDict()

    async def draw(self, spec: dict[str, Any], form: str, person: str = "") -> bytes:
        """Return the specification `spec` as a picture; `form` is svg, png or pdf.

        Raises CannotDraw.

        Half of those that wait may be a `person`'s who asks for single ones ('': a page's).
        """
        if not can_draw():
            raise CannotDraw(HOW_TO_INSTALL)
        text = json.dumps({"spec": spec, "form": form}).encode()
        # Another version of the package may draw otherwise.
        key = hashlib.sha256(f"{version('vl-convert-python')} ".encode() + text).hexdigest()
        if key not in self._drawn:
            if not self._waiting.has_room(person):
                raise CannotDraw("Too many charts are being drawn; try again in a few seconds.")
            with self._waiting.one_of(person):
                async with self._turn:
                    if key not in self._drawn:
                        self._drawn[key] = await self._stored_or_drawn(key, text)
        self._drawn.move_to_end(key)
        while len(self._drawn) > 1 and sum(map(len, self._drawn.values())) > _MOST_BYTES:
            self._drawn.popitem(last=False)
        return self._drawn[key]

    async def _stored_or_drawn(self, key: str, text: bytes) -> bytes:
        path = self._folder / key if self._folder else None
        if path is not None and (stored := await asyncio.to_thread(_content_of, path)):
            return stored
        pen = self._idle.pop()
        try:
            picture = await pen.draw(text)
        finally:
            self._idle.append(pen)
        if path is not None:
            await asyncio.to_thread(_store, path, picture)
        return picture

    async def close(self) -> None:
        """End the processes."""
        for pen in self._pens:
            await pen.close()


def _content_of(path: Path) -> bytes:
    """Return a stored picture, empty where there is none."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _store(path: Path, picture: bytes) -> None:
    """Store a picture, and forget the oldest where there are too many; a full disk is no matter."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f"{path.name}.{os.getpid()}")
        partial.write_bytes(picture)
        partial.replace(path)
        facts = sorted(
            (stored.stat().st_mtime, stored.stat().st_size, stored)
            for stored in path.parent.iterdir()
        )
        surplus = sum(size for _, size, _ in facts) - _MOST_STORED_BYTES
        for _, size, stored in facts:
            if surplus <= 0:
                break
            stored.unlink(missing_ok=True)
            surplus -= size


class _Pen:
    """A process that draws one specification after the other."""

    def __init__(self) -> None:
        self.process: asyncio.subprocess.Process | None = None

    async def draw(self, text: bytes) -> bytes:
        """Return the process' answer; a process that takes too long or died is replaced."""
        try:
            async with asyncio.timeout(_LIMIT_S):
                if self.process is None:
                    self.process = await asyncio.create_subprocess_exec(
                        sys.executable,
                        "-P",
                        "-m",
                        "services.gateway.charts.pen",
                        stdin=asyncio.subprocess.PIPE,
                        stdout=asyncio.subprocess.PIPE,
                    )
                source, sink = self.process.stdout, self.process.stdin
                if source is None or sink is None:
                    raise ConnectionError
                sink.write(len(text).to_bytes(4, "big") + text)
                await sink.drain()
                length_bytes = int.from_bytes(await source.readexactly(4), "big")
                answer = await source.readexactly(length_bytes)
        except (TimeoutError, asyncio.IncompleteReadError, ConnectionError) as error:
            await self.close()
            raise CannotDraw("The chart was not drawn; the table has its figures.") from error
        except asyncio.CancelledError:
            # Its answer would be taken for that of the next.
            await self.close()
            raise
        if not answer[0]:
            raise CannotDraw(f"The chart was not drawn: {answer[1:].decode()}")
        return answer[1:]

    async def close(self) -> None:
        """End the process."""
        process, self.process = self.process, None
        if process is not None:
            await end_process(process)
