"""Pages of what is not there, or not there for now: what they say, and what they still show."""

import httpx
import pytest

from mlscope.bus.bus import Bus
from mlscope.testing.memory_bus import MemoryServer, connect
from schemas.manifest import DatasetManifest, Sample
from schemas.request import Refused
from schemas.trace import ShowTrace
from tests.mlscope.client.answers import answering
from tests.services.gateway.conftest import web_over
from tests.stand_ins import StandIns
from tests.stories import E, whole_story

PHOTOS = DatasetManifest(name="photos", version="1.0.0", samples=(Sample(path="cat.jpg"),))


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/datasets/photos/2.0.0", "No dataset photos 2.0.0; /datasets lists all."),
        ("/datasets/noise/1.0.0", "No dataset noise 1.0.0; /datasets lists all."),
        ("/models/tiny/9.0.0", "No model tiny 9.0.0; /models lists all."),
        ("/models/huge/1.0.0", "No model huge 1.0.0; /models lists all."),
    ],
)
async def test_an_entry_that_the_catalog_lacks_is_a_page_that_says_where_all_are(
    web: httpx.AsyncClient, standing: StandIns, path: str, said: str
) -> None:
    standing.catalog = {"datasets": (PHOTOS,)}
    page = await web.get(path)
    assert page.status_code == 404
    assert page.headers["content-type"].startswith("text/html")
    assert said in page.text


async def test_a_dataset_s_page_shows_its_samples(
    web: httpx.AsyncClient, standing: StandIns
) -> None:
    standing.catalog = {"datasets": (PHOTOS,)}
    page = await web.get("/datasets/photos/1.0.0")
    assert (page.status_code, "cat.jpg" in page.text) == (200, True)


@pytest.mark.parametrize("path", ["/models", "/datasets", "/scenarios", "/frameworks", "/agents"])
async def test_a_catalog_without_a_registry_says_that_nobody_answers(bus: Bus, path: str) -> None:
    async with web_over(bus) as web:
        page = await web.get(path)
    assert page.status_code == 503
    assert page.headers["content-type"].startswith("text/html")
    assert "no service answers" in page.text


async def test_spans_as_tables_without_an_analyzer_leave_the_page_with_the_reason(
    web: httpx.AsyncClient, standing: StandIns
) -> None:
    await standing.tell(*whole_story())
    page = await web.get(f"/evaluations/{E}/trace", params={"form": "table", "run": "r0"})
    assert page.status_code == 200
    assert "no service answers" in page.text


async def test_spans_as_tables_of_a_run_without_any_say_so(
    web: httpx.AsyncClient, server: MemoryServer, standing: StandIns
) -> None:
    await standing.tell(*whole_story())
    refused = Refused(error="unknown", message="run r1 has no spans", field="run")
    async with connect(server, "analyzer") as analyzer:
        asked = await answering(analyzer, ShowTrace, lambda _: refused)
        page = await web.get(f"/evaluations/{E}/trace", params={"form": "table", "run": "r1"})
    assert (page.status_code, "run r1 has no spans" in page.text) == (200, True)
    assert [(command.evaluation, command.run) for command in asked] == [(E, "r1")]
