"""The watch of hosts: what it says at an agent's start, and when it asks for an announcement."""

from pathlib import Path

import pytest

from mlscope.assets.cache import Cache
from mlscope.assets.keys import short_key
from mlscope.assets.options import AllowedHosts
from services.agent.fetching import host_watch
from services.agent.fetching.host_watch import HUB, HostWatch
from tests.mlscope.assets.conftest import site
from tests.mlscope.assets.web_server import Site
from tests.services.scheduler.samples import an_agent

__all__ = ["site"]


@pytest.fixture(autouse=True)
def _alone_and_without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_watch, "HOSTS", {})
    monkeypatch.setattr(host_watch, "PAUSE_S", 0.0)
    monkeypatch.setattr(host_watch, "RETRY_S", 0.0)


async def started(url: str, folder: Path, allowed: AllowedHosts | None = None) -> HostWatch:
    """Return a watch after its first tries, announced as it is."""
    watch = HostWatch(url, allowed or AllowedHosts(), folder)
    watch.begin()
    await watch.settle()
    watch.announced = frozenset(watch.faults)
    return watch


async def test_without_a_hub_the_setting_is_named_and_no_other_host_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_watch, "HOSTS", {"weights.invalid": "its models"})
    watch = await started("", tmp_path)
    described = watch.added_to(an_agent().announcement, watch.faults)
    assert (described.has_hub, described.hosts) == (False, ())
    assert described.hub_reason == "MLSCOPE_HUB_URL is off"


async def test_a_hub_is_lost_after_two_failures_and_found_with_one_answer(
    site: Site, tmp_path: Path
) -> None:
    site.statuses = [200, 503, 200, 503, 504]
    watch = await started(site.url, tmp_path)
    faults = [dict(watch.faults)]
    async for _ in watch.changes():
        faults.append(dict(watch.faults))
        watch.announced = frozenset(watch.faults)
        if len(faults) == 3:
            break
    assert faults == [{}, {HUB: f"{site.url} answers 504"}, {}]
    assert site.statuses == []


async def test_a_change_that_was_not_announced_is_told_again(site: Site, tmp_path: Path) -> None:
    watch = await started(site.url, tmp_path)
    watch.announced = frozenset({HUB})
    announcements = 0
    async for _ in watch.changes():
        announcements += 1
        if announcements == 2:
            break
    assert announcements == 2


async def test_a_host_of_weights_that_does_not_answer_is_announced_beside_what_the_cache_has(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Its server speaks no TLS.
    host = site.url.removeprefix("http://")
    monkeypatch.setattr(host_watch, "HOSTS", {host: "its models"})
    Cache(tmp_path, 1 << 20)
    content = tmp_path / "sha256" / "ab" / ("cd" * 31)
    content.parent.mkdir(parents=True)
    content.write_bytes(b"weights")
    watch = await started(site.url, tmp_path, AllowedHosts(("127.0.0.1",)))
    described = watch.added_to(an_agent().announcement, watch.faults)
    assert described.has_hub
    ((name, reason),) = ((own.name, own.reason) for own in described.hosts or ())
    assert name == host
    assert f"https://{host}/: " in reason
    assert described.cached == (short_key(f"sha256:ab{'cd' * 31}"),)
    assert watch.added_to(described, {}).cached == ()


async def test_a_host_that_the_owner_forbids_is_sent_nothing(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_watch, "HOSTS", {site.url.removeprefix("http://"): "its models"})
    watch = await started(site.url, tmp_path, AllowedHosts(("example.org",)))
    ((_, fault),) = watch.faults.items()
    assert "MLSCOPE_FETCH_HOSTS" in fault
