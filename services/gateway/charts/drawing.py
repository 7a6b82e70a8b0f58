"""Pictures of charts: drawn by a process of its own, a few at a time, and remembered."""

import asyncio
import contextlib
import hashlib
import importlib.util
import json
import sys
from collections import OrderedDict
from typing import Any

from services.gateway.errors import CannotDraw

HOW_TO_INSTALL = "Charts are drawn where the gateway has them: pip install 'mlscope[charts]'"
_MOST_WAITING = 16
_MOST_BYTES = 32 * 2**20
_LIMIT_S = 20.0


def can_draw() -> bool:
    """Tell whether the package that draws is installed."""
    return importlib.util.find_spec("vl_convert") is not None


class Pictures:
    """Draws specifications; equal ones are drawn once, as long as they are remembered."""

    def __init__(self) -> None:
        """Start nothing: the process starts with the first picture."""
        self._process: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._drawn: OrderedDict[str, bytes] = OrderedDict()

    async def draw(self, spec: dict[str, Any], form: str) -> bytes:
        """Return a specification as a picture; `form` is svg, png or pdf. Raises CannotDraw."""
        if not can_draw():
            raise CannotDraw(HOW_TO_INSTALL)
        text = json.dumps({"spec": spec, "form": form}).encode()
        key = hashlib.sha256(text).hexdigest()
        if key not in self._drawn:
            if self._waiting >= _MOST_WAITING:
                raise CannotDraw("Too many charts are being drawn; try again in a few seconds.")
            self._waiting += 1
            try:
                async with self._turn:
                    if key not in self._drawn:
                        self._drawn[key] = await self._asked(text)
            finally:
                self._waiting -= 1
        self._drawn.move_to_end(key)
        while len(self._drawn) > 1 and sum(map(len, self._drawn.values())) > _MOST_BYTES:
            self._drawn.popitem(last=False)
        return self._drawn[key]

    async def _asked(self, text: bytes) -> bytes:
        """Return the process' answer; a process that takes too long or died is replaced."""
        try:
            async with asyncio.timeout(_LIMIT_S):
                answer = await self._answer(text)
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

    async def _answer(self, text: bytes) -> bytes:
        if self._process is None:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "services.gateway.charts.pen"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
            )
        source, sink = self._process.stdout, self._process.stdin
        if source is None or sink is None:
            raise ConnectionError
        sink.write(len(text).to_bytes(4, "big") + text)
        await sink.drain()
        return await source.readexactly(int.from_bytes(await source.readexactly(4), "big"))

    async def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
