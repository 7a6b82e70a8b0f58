"""Whether the agent's model hub answers: tried at its start and from time to time, in a thread.

No request waits for a try. A start waits for the first one, but not long.
"""

import asyncio
from collections.abc import AsyncGenerator

from mlscope.assets.web.probing import web_fault
from mlscope.redaction import redact
from services.agent.fetching.fetching import in_daemon_thread

FIRST_S = 2.0
"""How long a start waits for the first try."""
LIMIT_S = 5.0
"""How long a try may take."""
PAUSE_S = 300.0
RETRY_S = 60.0
"""The pause before the next try, where the hub answers and where it does not."""


class HubWatch:
    """Tries one hub; one failure after answers changes nothing, since it may pass."""

    def __init__(self, url: str) -> None:
        """Watch the hub at `url`; '' where the owner turned it off."""
        self._url = url
        self._failures = 0
        self._trying: asyncio.Task[str] | None = None
        #: why nothing can be fetched from the hub; '' where it answers
        self.fault = "" if url else "MLSCOPE_HUB_URL is off"
        #: whether the agent announced that it can fetch; None before its first announcement
        self.is_announced: bool | None = None

    def begin(self) -> None:
        """Begin to try the hub; the loop goes on meanwhile."""
        if self._url:
            self._trying = asyncio.create_task(
                in_daemon_thread(lambda: web_fault(self._url, LIMIT_S))
            )

    async def settle(self) -> None:
        """Wait a short time for the first try."""
        if self._trying is None:
            return
        ended, _ = await asyncio.wait({self._trying}, timeout=FIRST_S)
        late = f"{redact(self._url)} did not answer within {FIRST_S:g} s"
        self.fault = self._trying.result() if ended else late

    async def changes(self) -> AsyncGenerator[None, None]:
        """Yield whenever the announcement no longer holds, for ever."""
        while self._trying is not None:
            fault = await self._trying
            self._failures = self._failures + 1 if fault else 0
            if self._failures != 1 or self.fault:
                self.fault = fault
            if self.is_announced is not (not self.fault):
                yield
            await asyncio.sleep(RETRY_S if self._failures else PAUSE_S)
            self.begin()
        await asyncio.Event().wait()
