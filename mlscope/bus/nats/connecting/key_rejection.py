"""Tells a key that the server rejects for good from one that it rejects for a moment."""

import asyncio
import math
from collections.abc import Coroutine
from typing import Any

from mlscope.bus.errors import NotPermitted
from mlscope.tasks import end_tasks

_WRONG_AFTER_S = 0.5
"""How long a new key must be rejected to be called wrong: a server that reads its configuration
anew rejects keys that it has for a moment."""
_REVOKED_AFTER_S = 3.0
"""How long a key must be rejected that was accepted before, by every server that answers."""


class KeyRejection:
    """What one connection heard of its key; nats-py itself retries for ever."""

    def __init__(self) -> None:
        """Begin without a rejection."""
        self._is_wrong = asyncio.Event()
        self._rejected_since_s = math.inf
        self._limit_s = _WRONG_AFTER_S
        #: why the server takes no more connections with this key, '' if it does
        self.refusal = ""

    @property
    def is_revoked(self) -> bool:
        """Whether a key that was accepted before is rejected for good."""
        return self._is_wrong.is_set() and self._limit_s == _REVOKED_AFTER_S

    def accepted(self) -> None:
        """Note that a server took the key: what was heard of it before counts no more."""
        self._is_wrong.clear()
        self.refusal = ""
        self._rejected_since_s, self._limit_s = math.inf, _REVOKED_AFTER_S

    def note(self, text: str) -> None:
        """Take the lower-case `text` of an error of the connection."""
        # While it connects, nats-py raises its general `Error` with the server's text.
        if "authorization violation" in text:
            now_s = asyncio.get_running_loop().time()
            self._rejected_since_s = min(self._rejected_since_s, now_s)
            if now_s >= self._rejected_since_s + self._limit_s:
                self._is_wrong.set()
        if "maximum account active connections" in text:
            self.refusal = "this key has as many connections as it may have; close some"

    async def connect(self, connecting: Coroutine[Any, Any, None], name: str) -> None:
        """Connect by `connecting`, as `name`. Raises NotPermitted once the key is wrong."""
        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(connecting), loop.create_task(self._is_wrong.wait())]
        try:
            finished, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if tasks[0] not in finished:
                raise NotPermitted(f"a connection as {name} with this key")
            tasks[0].result()
        finally:
            await end_tasks(tasks)
        self.accepted()
