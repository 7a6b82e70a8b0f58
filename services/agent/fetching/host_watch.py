"""Whether the hosts of weights answer: tried at the agent's start and then ever again, in threads.

They are the model hub, and the hosts of the models that mlscope ships. No request waits for a try.
A start waits for the first ones, but not long.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType

from mlscope.assets.eviction import CacheLayout
from mlscope.assets.options import AllowedHosts
from mlscope.assets.web.probing import web_fault
from mlscope.redaction import redact
from schemas.agent import Announcement, HostFacts
from services.agent.fetching.fetching import in_daemon_thread

HUB = ""
"""The name of the model hub among the hosts."""
HOSTS: Mapping[str, str] = MappingProxyType(
    {
        "download.pytorch.org": "torchvision's models",
        "github.com": "some of timm's models",
        "storage.googleapis.com": "Keras's models",
    }
)
"""The other hosts of the shipped models' weights, and whose these are."""
FIRST_S = 2.0
"""How long a start waits for the first tries."""
LIMIT_S = 5.0
"""How long a try may take."""
PAUSE_S = 300.0
RETRY_S = 60.0
"""The pause before the next tries, where all hosts answer and where one does not."""


class HostWatch:
    """Tries some hosts; one failure after answers changes nothing, since it may pass."""

    def __init__(self, hub_url: str, allowed: AllowedHosts, cache_folder: Path) -> None:
        """Watch the hub at `hub_url` and the other hosts, as far as they are `allowed`.

        With '', where the owner turned the hub off, none is tried. The cache of fetched files is in
        `cache_folder`.
        """
        others = {host: f"https://{host}/" for host in HOSTS}
        self._urls = {HUB: hub_url, **others} if hub_url else {}
        self._allowed, self._cache = allowed, CacheLayout(cache_folder)
        self._failures: Counter[str] = Counter()
        self._trying: dict[str, asyncio.Task[str]] = {}
        #: why nothing can be fetched from a host, by its name; without those that answer
        self.faults = {} if hub_url else {HUB: "MLSCOPE_HUB_URL is off"}
        #: the hosts that the agent announced as failing; None before its first announcement
        self.announced: frozenset[str] | None = None

    def begin(self) -> None:
        """Begin to try the hosts; the loop goes on meanwhile."""
        for name, url in self._urls.items():
            allowed = self._allowed if name else AllowedHosts(()).with_host_of(url)
            probe = partial(web_fault, url, LIMIT_S, allowed)
            self._trying[name] = asyncio.create_task(in_daemon_thread(probe))

    async def settle(self, limit_s: float | None = None) -> None:
        """Wait for the first tries, together up to `limit_s`; None is the time of a start."""
        limit_s = FIRST_S if limit_s is None else limit_s
        if self._trying:
            await asyncio.wait(self._trying.values(), timeout=limit_s)
        for name, trying in self._trying.items():
            late = f"{redact(self._urls[name])} did not answer within {limit_s:g} s"
            if fault := trying.result() if trying.done() else late:
                self.faults[name] = fault

    async def changes(self) -> AsyncGenerator[None, None]:
        """Yield whenever the announcement no longer holds, for ever."""
        while self._trying:
            for name, trying in self._trying.items():
                self._note(name, await trying)
            if self.announced != self.faults.keys():
                yield
            await asyncio.sleep(RETRY_S if self._failures.total() else PAUSE_S)
            self.begin()
        await asyncio.Event().wait()

    def _note(self, name: str, fault: str) -> None:
        """Note how the last try of a host ended: with a `fault`, or '' for an answer."""
        self._failures[name] = self._failures[name] + 1 if fault else 0
        if not fault:
            self.faults.pop(name, None)
        elif self._failures[name] != 1 or name in self.faults:
            self.faults[name] = fault

    def added_to(self, described: Announcement, faults: Mapping[str, str]) -> Announcement:
        """Return an announcement with the `faults` of hosts, and what the cache has if any fails.

        It reads the cache's folder.
        """
        tried = [host for host in self._urls if host != HUB]
        changes = {
            "has_hub": HUB not in faults,
            "hub_reason": faults.get(HUB, ""),
            "hosts": tuple(HostFacts(name=host, reason=faults.get(host, "")) for host in tried),
            "cached": tuple(self._cache.short_keys()) if faults else (),
        }
        return described.model_copy(update=changes)
