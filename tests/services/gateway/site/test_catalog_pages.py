"""Pages of agents, datasets, scenarios, and where a model can run."""

import asyncio
import re
import threading
import time
import tracemalloc

import httpx
import pytest

from mlscope.bus.bus import Bus
from schemas.agent import CollectorFacts
from schemas.evaluation import EvaluationAnalyzed
from schemas.manifest import DatasetManifest, Sample, ScenarioManifest, Source, Synthetic
from schemas.run import Ceiling
from services.gateway.pages.catalog.datasets import DatasetRow, DatasetView, datasets_view
from services.gateway.pages.catalog.scenarios import drawing_of, scenarios_view
from services.gateway.rendering import html_of, prose
from tests.services.gateway.conftest import web_over
from tests.services.gateway.pages.catalog.test_layer_tree import a_layer
from tests.services.gateway.pages.results.test_picture import a_table
from tests.services.gateway.pages.test_home import an_agent
from tests.stand_ins import StandIns
from tests.stories import E, a_run, beginning, whole_story


async def test_an_agent_s_page_says_what_it_is_may_trace_and_runs(
    web: httpx.AsyncClient, standing: StandIns
) -> None:
    roofs = {"fp32": Ceiling(measured=2e12, uncertainty=0.02, datasheet=3e12, method="gemm")}
    agent = an_agent(cpu_model="EPYC", peak_flops=roofs, host_cores=64)
    collector = CollectorFacts(name="cupti", levels=(), reason="not <installed>")
    traced = agent.announcement.model_copy(update={"collectors": (collector,)})
    standing.agents = (agent.model_copy(update={"announcement": traced}),)
    requested, *others = beginning()
    now = requested.model_copy(update={"requested_ns": time.time_ns()})
    await standing.tell(now, *others, *a_run("r0")[:1])
    listed = (await web.get("/agents")).text
    assert 'href="/agents/a1"' in listed
    assert "busy" in listed
    page = (await web.get("/agents/a1")).text
    assert "8 of 64" in page
    assert "2 TFLOP/s (up to 2.0% higher)" in page
    assert page.count("<rect ") == page.count(": 1 evaluation</title>") == 1
    assert "not &lt;installed&gt;" in page
    assert page.count(f'href="/evaluations/{E}"') == 2
    missing = await web.get("/agents/none")
    assert (missing.status_code, "/agents lists all" in missing.text) == (404, True)


async def test_without_agents_it_says_how_to_start_one(
    web: httpx.AsyncClient, standing: StandIns
) -> None:
    assert "mlscope serve agent" in (await web.get("/agents")).text


async def test_a_model_s_page_says_where_it_can_run_and_why_not_elsewhere(
    web: httpx.AsyncClient, standing: StandIns
) -> None:
    await standing.tell(*whole_story())
    page = (await web.get("/models/tiny/1.0.0")).text
    assert 'href="/agents/a1">a1</a><small class="beside">would be chosen' in page
    assert "onnxruntime 1.31.0" in page
    assert "memory 1.0 GiB, wanted 8.0 GiB" in page
    assert f'href="/evaluations/{E}"' in page
    assert [request.model for request in standing.matched] == ["tiny:1.0.0"]


async def test_a_model_s_page_needs_no_scheduler(bus: Bus) -> None:
    standing = StandIns(bus)
    await bus.answer("mlscope.v1.request.catalog", standing._catalog, queue="catalog")
    async with web_over(bus) as web:
        page = await web.get("/models/tiny/1.0.0")
    assert page.status_code == 200
    assert 'class="note"' in page.text


def test_datasets_say_how_many_samples_they_have_and_where_from() -> None:
    held = DatasetManifest(name="held", samples=(Sample(path="a/cat.jpg", labels=("cat",)),) * 70)
    made = DatasetManifest(name="made", synthetic=Synthetic(samples=2000, seed=7))
    far = DatasetManifest(name="far", source=Source(address="file:/x", reader="npy"))
    html = html_of(datasets_view([made, held, far]))
    assert html.index("/datasets/far/1.0.0") < html.index("/datasets/held/1.0.0")
    for count in ('"samples">2,000<', '"samples">70<', '"number of samples">unknown<'):
        assert count in html
    one = DatasetManifest(name="one", samples=(Sample(path="a.jpg"),))
    assert 'data-unit="sample">1<' in html_of(datasets_view([one]))
    page = html_of(DatasetView(DatasetRow(held)))
    assert page.count("cat.jpg") == 60
    assert "and 10 more" in page
    assert "made from seed 7" in html_of(DatasetView(DatasetRow(made)))
    assert "file:/x (npy)" in html_of(DatasetView(DatasetRow(far)))


def test_a_sample_that_is_a_small_picture_is_shown() -> None:
    sample = Sample(content="iVBORw0KGgoAAAA", labels=("dot",))
    page = html_of(DatasetView(DatasetRow(DatasetManifest(name="d", samples=(sample,)))))
    assert '<img src="data:image/png;base64,iVBORw0KGgoAAAA" alt="dot" loading="lazy">' in page
    text = Sample(content="PHNjcmlwdD4=")
    assert "<img" not in html_of(
        DatasetView(DatasetRow(DatasetManifest(name="d", samples=(text,))))
    )


def test_an_open_loop_is_drawn_from_its_due_times() -> None:
    drawing = drawing_of(ScenarioManifest(name="fixed_rate", parameters={"rate_hz": 10}))
    assert drawing is not None
    assert drawing.marks == pytest.approx([number / 20 for number in range(20)])
    assert drawing.caption == "Due times of the first 2 s: 20 queries"


@pytest.mark.parametrize("name", ["fixed_rate", "poisson"])
def test_of_a_long_load_the_first_queries_are_made_to_be_drawn(name: str) -> None:
    parameters = {"rate_hz": 1000, "queries": 10_000_000, "sample_seed": 1}
    tracemalloc.start()
    drawing = drawing_of(ScenarioManifest(name=name, parameters=parameters))
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 1_000_000
    assert drawing is not None
    assert len(drawing.marks) == 200
    assert drawing.marks[-1] == pytest.approx(1)
    assert drawing.caption.endswith(" s: 200 queries")


def test_a_closed_loop_is_drawn_with_its_queries_in_flight() -> None:
    drawing = drawing_of(ScenarioManifest(name="batched", parameters={"concurrency": 3}))
    assert drawing is not None
    assert len(drawing.blocks) == 3
    assert "3 at a time" in drawing.caption
    ends = [start + width for row in drawing.blocks for start, width in row]
    assert max(ends) <= 1


def test_a_scenario_of_another_package_has_no_drawing_but_an_entry() -> None:
    manifest = ScenarioManifest(name="mine", description="As `x`. Final performance result is: y.")
    assert drawing_of(manifest) is None
    html = html_of(scenarios_view([manifest, manifest.model_copy(update={"version": "1.10.0"})]))
    assert "1.10.0" in html
    assert "As <code>x</code>.</p>" in html
    assert "<strong>Result:</strong> y." in html


def test_a_scenario_that_fails_has_no_drawing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise KeyError("trace")

    monkeypatch.setattr("services.gateway.pages.catalog.scenarios.scenario_named", lambda _: fail)
    assert drawing_of(ScenarioManifest(name="mine")) is None


async def test_a_scenario_without_end_keeps_no_page_waiting(
    web: httpx.AsyncClient, standing: StandIns, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, is_over = threading.Event(), threading.Event()

    def endless(*_: object) -> None:
        begun.set()
        is_over.wait(5)

    path = "services.gateway.pages.catalog.scenarios.scenario_named"
    monkeypatch.setattr(path, lambda _: endless)
    monkeypatch.setattr("services.gateway.site.datasets._DRAWN_S", 0.3)
    standing.catalog = {"scenarios": (ScenarioManifest(name="mine"),)}
    page = asyncio.create_task(web.get("/scenarios"))
    await asyncio.to_thread(begun.wait, 30)
    assert (await web.get("/datasets")).status_code == 200
    assert not page.done()
    assert "mine" in (await page).text
    is_over.set()


def test_backticks_make_code_and_nothing_else() -> None:
    assert prose("a `<b>` c") == "a <code>&lt;b&gt;</code> c"
    assert prose("a ` c <b>") == "a ` c &lt;b&gt;"


@pytest.mark.parametrize("path", ["/datasets", "/scenarios"])
async def test_empty_catalogs_are_pages(
    web: httpx.AsyncClient, standing: StandIns, path: str
) -> None:
    response = await web.get(path)
    assert (response.status_code, 'class="empty"' in response.text) == (200, True)


async def test_a_model_s_page_has_the_layers_of_its_newest_traced_evaluation(
    web: httpx.AsyncClient, standing: StandIns
) -> None:
    rows = [a_layer("block.conv", 3, 30.0), a_layer("block.relu", 4, 10.0)]
    standing.held = [a_table("layers", *rows)["layers"]]
    analyzed = EvaluationAnalyzed(evaluation=E, tables=("layers",))
    await standing.tell(*whole_story()[:-1], analyzed, *whole_story("fedcba9876543210"))
    page = (await web.get("/models/tiny/1.0.0")).text
    assert f'2 layers of r0 in <a href="/evaluations/{E}">' in page
    assert f'href="/evaluations/{E}/analyses/A2?layer=3">conv</a>' in page
    assert re.search(r'<details open><summary>.*<span class="name">block</span>', page)
    assert '<span class="part">75.0%</span>' in page
