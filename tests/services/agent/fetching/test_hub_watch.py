"""The watch of a hub: what it tells at an agent's start, and when it asks for an announcement."""

import pytest

from services.agent.fetching import hub_watch
from services.agent.fetching.hub_watch import HubWatch
from tests.mlscope.assets.conftest import site
from tests.mlscope.assets.web_server import Site

__all__ = ["site"]


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_watch, "PAUSE_S", 0.0)
    monkeypatch.setattr(hub_watch, "RETRY_S", 0.0)


async def started(url: str) -> HubWatch:
    """Return a watch after its first try, announced as it is."""
    watch = HubWatch(url)
    watch.begin()
    await watch.settle()
    watch.is_announced = not watch.fault
    return watch


async def test_without_a_hub_the_setting_is_named() -> None:
    assert (await started("")).fault == "MLSCOPE_HUB_URL is off"


async def test_a_hub_is_lost_after_two_failures_and_found_with_one_answer(site: Site) -> None:
    site.statuses = [200, 503, 200, 503, 504]
    watch = await started(site.url)
    faults = [watch.fault]
    async for _ in watch.changes():
        faults.append(watch.fault)
        watch.is_announced = not watch.fault
        if len(faults) == 3:
            break
    assert faults == ["", f"{site.url} answers 504", ""]
    assert site.statuses == []


async def test_a_change_that_was_not_announced_is_told_again(site: Site) -> None:
    watch = await started(site.url)
    watch.is_announced = False
    announcements = 0
    async for _ in watch.changes():
        announcements += 1
        if announcements == 2:
            break
    assert announcements == 2
