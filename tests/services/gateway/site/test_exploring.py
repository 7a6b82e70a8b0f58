"""The pages and REST of explorations: constraints, prices, charts, files, and empty states."""

import io
import json

import httpx
import polars as pl
import pytest

from services.gateway.pages.comparing.exploring import ExplorationView
from tests.services.analyzer.exploring.loads import a_load, measured
from tests.stand_ins import StandIns
from tests.stories import E


@pytest.fixture
def loads(standing: StandIns) -> StandIns:
    """Have loads of two models, one on two agents."""
    standing.loads = [
        *(a_load(batch_size=size, rate=60.0 * size, **measured(0.6)) for size in (1, 2, 4)),
        a_load(rate=900, agent="a2", device="cuda", accelerator="H200"),
        a_load("other", ms=30, **measured(0.9)),
    ]
    return standing


async def test_all_explorations_are_drawn_on_one_page(
    web: httpx.AsyncClient, loads: StandIns
) -> None:
    text = (await web.get("/explore")).text
    for name in ("accuracy_latency", "batch_speedup", "systems", "gpu_and_cpu", "cold_start"):
        section = text.partition(f'<section id="{name}"')[2].partition("</section>")[0]
        assert section.count("<svg") == 2, name
        assert f'href="/explore/{name}"' in section
    assert "more accurate (top-1 on photos:1.0.0) than tiny, other" in text
    assert "<!--exploration" not in text
    assert {each.table for each in loads.explored} >= {"", "systems", "cost"}
    assert "history" not in {each.table for each in loads.explored}


async def test_a_table_computes_the_evaluations_of_its_rows_once(
    web: httpx.AsyncClient, loads: StandIns, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed = []

    def evaluations(view: ExplorationView) -> list[str]:
        computed.append(view.table.name)
        return [E] * len(view.table.rows)

    monkeypatch.setattr(ExplorationView, "evaluations", property(evaluations))
    text = (await web.get("/explore/systems")).text
    assert text.count(f'value="{E}"') > 1
    assert computed == ["systems"]


async def test_without_evaluations_the_page_says_what_to_run(web: httpx.AsyncClient) -> None:
    text = (await web.get("/explore")).text
    assert "mlscope run MODEL" in text
    assert 'href="/new"' in text
    alone = (await web.get("/explore/batch_speedup")).text
    assert "<code>mlscope run MODEL --batch-size 1,2,4,8</code>" in alone
    assert "<svg" not in alone


async def test_a_part_of_the_page_has_its_caveats_below_its_verdict(
    web: httpx.AsyncClient, loads: StandIns
) -> None:
    text = (await web.get("/explore?price.a1=3.6")).text
    section = text.partition('<section id="cost"')[2].partition("</section>")[0]
    verdict, _, after = section.partition('<ul class="notes">')
    assert 'class="verdict"' in verdict
    assert after.startswith("<li>no price of: a2</li>")


async def test_a_filter_that_matches_nothing_is_named_as_the_reason(
    web: httpx.AsyncClient, loads: StandIns
) -> None:
    alone = (await web.get("/explore/systems?model=none")).text
    assert "<p>Nothing matches this filter.</p>" in alone
    text = (await web.get("/explore?model=none")).text
    assert text.count("Nothing matches this filter.") > 1
    for page in (alone, text):
        assert "No throughput was measured" not in page
    # A load matches, and has nothing to compare it with.
    assert "No model was measured at two" in (await web.get("/explore/batch_speedup?agent=a2")).text


async def test_filters_are_applied(web: httpx.AsyncClient, loads: StandIns) -> None:
    assert "<button>Apply</button>" in (await web.get("/explore/systems")).text
    assert "<button>Search</button>" in (await web.get("/models")).text


async def test_constraints_and_prices_stay_in_every_address(
    web: httpx.AsyncClient, loads: StandIns
) -> None:
    text = (await web.get("/explore/cost?model=tiny&price.a1=3.6&device=")).text
    (request,) = (request for request in loads.explored if request.table)
    assert (request.model, request.prices, request.table) == ("tiny", {"a1": 3.6}, "cost")
    query = "?model=tiny&amp;price.a1=3.6"
    assert f'href="/explore{query}"' in text
    assert f'href="/explore/systems{query}"' in text
    assert f'href="/api/explore/charts/cost.svg{query}"' in text
    assert '<input type="hidden" name="price.a1" value="3.6">' in text
    assert "no price of: a2" in text


async def test_one_exploration_has_its_table_sorted_and_its_evaluations(
    web: httpx.AsyncClient, loads: StandIns
) -> None:
    text = (await web.get("/explore/systems?sort=samples_per_s&order=descending")).text
    body = text.partition("<tbody>")[2]
    assert body.index("900") < body.index("240") < body.index("60")
    assert 'aria-sort="descending"' in text
    assert '<a href="/evaluations/e1">e1</a>' not in text  # equal in every row
    history = (await web.get("/explore/history")).text
    assert "Choose a model" in history


@pytest.mark.parametrize(
    ("address", "field"),
    [
        ("/api/explore?colour=red", "colour"),
        ("/api/explore/tables/cost?price=a1=much", "price.a1"),
        ("/api/explore/tables/cost?price.a1=-3", "prices.a1"),
        ("/api/explore/charts/cost.gif", "chart"),
        ("/api/explore/tables/cost.xls", "format"),
    ],
)
async def test_wrong_parameters_are_named(
    web: httpx.AsyncClient, loads: StandIns, address: str, field: str
) -> None:
    answer = await web.get(address)
    assert (answer.status_code, answer.json()["field"]) == (400, field)


async def test_an_unknown_exploration_is_not_found(web: httpx.AsyncClient) -> None:
    for address in ("/explore/none", "/api/explore/tables/none", "/api/explore/charts/none.svg"):
        assert (await web.get(address)).status_code == 404, address


async def test_tables_and_charts_are_files(web: httpx.AsyncClient, loads: StandIns) -> None:
    told = (await web.get("/api/explore")).json()
    assert ["systems", "Throughput by system"] in told["tables"]
    assert told["choices"]["model"] == ["other", "tiny"]
    table = (await web.get("/api/explore/tables/systems?agent=a2")).json()
    assert len(table["rows"]) == 1
    parquet = await web.get("/api/explore/tables/systems.parquet")
    assert pl.read_parquet(io.BytesIO(parquet.content)).height == 5
    picture = await web.get("/api/explore/charts/accuracy_latency.svg?theme=page&width=narrow")
    assert picture.headers["content-type"] == "image/svg+xml"
    spec = json.loads((await web.get("/api/explore/charts/batch_speedup.json")).content)
    assert spec["usermeta"]["units"]["speedup"] == "1"
    assert (await web.get("/api/explore/charts/frameworks.svg")).status_code in (400, 404, 503)
