"""A headless chromium spoken to over its debugging pipe: no driver, no socket, no package."""

import asyncio
import itertools
import json
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--remote-debugging-pipe",
)


def find_chromium() -> str | None:
    """Return the program, None when this machine has none."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((found for name in names if (found := shutil.which(name))), None)


class Page:
    """One page; `trouble` collects what the browser complains of."""

    def __init__(self, reader: asyncio.StreamReader, writer: int) -> None:
        self.trouble: list[str] = []
        self._reader, self._writer = reader, writer
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._session = ""
        self._reading = asyncio.create_task(self._read())

    async def open(self, url: str) -> None:
        """Go to an address."""
        if not self._session:
            target = await self.call("Target.createTarget", url="about:blank")
            attached = await self.call(
                "Target.attachToTarget", targetId=target["targetId"], flatten=True
            )
            self._session = attached["sessionId"]
            for domain in ("Page", "Runtime", "Log"):
                await self.call(f"{domain}.enable")
        await self.call("Page.navigate", url=url)

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call the browser and return its result."""
        number = next(self._ids)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        self._waiting[number] = asyncio.get_running_loop().create_future()
        os.write(self._writer, json.dumps(message).encode() + b"\0")
        async with asyncio.timeout(30):
            return await self._waiting[number]

    async def value(self, script: str) -> Any:
        """Return the value of an expression in the page."""
        found = await self.call("Runtime.evaluate", expression=script, returnByValue=True)
        return found["result"].get("value")

    async def until(self, script: str, timeout_s: float = 20.0) -> None:
        """Wait until an expression is true; the page's text is in the error."""
        for _ in range(int(timeout_s / 0.05)):
            if await self.value(f"Boolean({script})"):
                return
            await asyncio.sleep(0.05)
        text = await self.value("document.body.innerText")
        raise AssertionError(f"never: {script}\n{text}\n{self.trouble}")

    async def _read(self) -> None:
        while message := await self._reader.readuntil(b"\0"):
            told = json.loads(message[:-1])
            if "id" in told:
                future = self._waiting.pop(told["id"])
                future.set_result(told.get("result", {"error": told.get("error")}))
            elif told["method"] == "Log.entryAdded":
                self.trouble.append(told["params"]["entry"]["text"])
            elif told["method"] == "Runtime.exceptionThrown":
                self.trouble.append(json.dumps(told["params"]["exceptionDetails"]))

    async def close(self) -> None:
        """Stop listening."""
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)


@asynccontextmanager
async def browsing(program: str, profile: Path) -> AsyncIterator[Page]:
    """Lend a page of a browser of its own."""
    ours_out, theirs_in = os.pipe()[::-1]
    theirs_out, ours_in = os.pipe()[::-1]
    command = " ".join((program, *_FLAGS, f"--user-data-dir={profile}", "about:blank"))
    process = await asyncio.create_subprocess_exec(
        "bash",
        "-c",
        f"exec {command} 3<&{theirs_in} 4>&{theirs_out} 2>/dev/null",
        pass_fds=(theirs_in, theirs_out),
    )
    os.close(theirs_in)
    os.close(theirs_out)
    reader = asyncio.StreamReader(limit=1 << 24)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(ours_in, "rb")
    )
    page = Page(reader, ours_out)
    try:
        yield page
    finally:
        await page.call("Browser.close")
        await process.wait()
        await page.close()
        transport.close()
        os.close(ours_out)
