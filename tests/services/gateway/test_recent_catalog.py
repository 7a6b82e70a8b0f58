"""The catalog as it was a moment ago."""

from mlscope.bus.bus import Bus
from services.gateway.recent_catalog import RecentCatalog
from tests.stand_ins import StandIns


async def test_it_is_asked_for_again_after_a_while(bus: Bus, standing: StandIns) -> None:
    now_s = 0.0
    recent = RecentCatalog(lambda: now_s)
    assert [model.name for model in (await recent.get(bus)).models] == ["tiny"]
    standing.models = ()
    now_s = 2.9
    assert len((await recent.get(bus)).models) == 1
    now_s = 3.0
    assert (await recent.get(bus)).models == ()


async def test_models_are_read_again_only_when_they_changed(bus: Bus, standing: StandIns) -> None:
    recent = RecentCatalog()
    first = await recent.models(bus)
    assert [model.name for model in first] == ["tiny"]
    assert await recent.models(bus) is first
    standing.models = (first[0].model_copy(update={"name": "other"}),)
    assert [model.name for model in await recent.models(bus)] == ["other"]
