"""Leads one browser of this user to an address that nobody else may see.

Everybody on a machine sees the arguments of its programs, and a browser in a sandbox of its own
(snap, flatpak) reads no files of others. So the browser gets the address of a server on loopback,
which asks the kernel whose browser it is, and redirects it.
"""

import asyncio
import os
import secrets
from types import TracebackType
from typing import Self

from cli.cluster.ports import LOOPBACK
from mlscope.peers import owner_of

_HEAD_BYTES = 64 << 10
_HEAD_S = 10.0
_HEADERS = (
    "Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\n"
    "Content-Length: 0\r\nConnection: close\r\n"
)
_SEE_OTHER, _FORBIDDEN, _NOT_FOUND = "303 See Other", "403 Forbidden", "404 Not Found"


class OneVisit:
    """A server on loopback that redirects the first browser of this user, or of root, to `address`.

    It listens while it is entered. Its `url` has a path that pages of other sites, which the
    browser may show as well, cannot guess.
    """

    url = ""

    def __init__(self, address: str) -> None:
        """Take the `address` to which the browser is led."""
        self._address = address
        self._target = b"GET /%s " % secrets.token_urlsafe(16).encode()
        self._is_used = False
        self._answered = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._visits: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def __aenter__(self) -> Self:
        """Start to listen."""
        self._server = await asyncio.start_server(self._connected, LOOPBACK, 0, limit=_HEAD_BYTES)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://{LOOPBACK}:{port}{self._target.split()[1].decode()}"
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop listening, and end other connections: browsers open some in advance."""
        if self._server is not None:
            self._server.close()
        for writer in self._visits.values():
            writer.close()
        if self._visits:
            await asyncio.wait([*self._visits])

    async def comes(self, within_s: float) -> bool:
        """Wait for the visit, and tell whether it came within so many seconds."""
        try:
            async with asyncio.timeout(within_s):
                await self._answered.wait()
        except TimeoutError:
            return False
        return True

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._visit(reader, writer))
        self._visits[task] = writer
        task.add_done_callback(self._visits.pop)

    async def _visit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer a connection; one of another user at once, so that it holds nothing."""
        if (peer := writer.get_extra_info("peername")) is None:
            writer.close()
            return
        ends = peer[:2], writer.get_extra_info("sockname")[:2]
        leads_on = False
        try:
            status = _FORBIDDEN
            if owner_of(*ends) in (0, os.geteuid()):
                async with asyncio.timeout(_HEAD_S):
                    head = await reader.readuntil(b"\r\n\r\n")
                leads_on = head.startswith(self._target) and not self._is_used
                self._is_used |= leads_on
                status = _SEE_OTHER if leads_on else _NOT_FOUND
            place = f"Location: {self._address}\r\n" if leads_on else ""
            writer.write(f"HTTP/1.1 {status}\r\n{place}{_HEADERS}\r\n".encode())
            await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # it hung up, or is no browser
        finally:
            writer.close()
            if leads_on:
                self._answered.set()
