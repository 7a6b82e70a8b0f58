"""Pages and pictures of analyses, over HTTP."""

import re

import httpx
import pytest

from schemas.analysis import Column, Table
from services.gateway.charts import drawing
from tests.stand_ins import StandIns
from tests.stories import E, whole_story

CHART = {
    "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
    "mark": "bar",
    "encoding": {
        "x": {"field": "time", "type": "quantitative", "axis": {}},
        "y": {"field": "name", "type": "nominal", "axis": {}},
    },
}
LAYERS = Table(
    name="layer_latency",
    title="Latency of layers (A3)",
    id="A3",
    columns=(
        Column(name="run", type="text"),
        Column(name="name", type="text"),
        Column(name="time", type="float", unit="ns"),
    ),
    rows=(("r", "conv", 5e6), ("r", "<b>", 7e6), ("s", "relu", 1e6)),
    verdict="The slowest is <b>.",
    caveats=("r: noisy",),
    chart=CHART,
    source="XSP A3.",
)
EMPTY = Table(name="kernels", title="Kernels (A8)", id="A8", columns=(), rows=(), verdict="No GPU.")
PAGE = f"/evaluations/{E}/analyses/A3"


@pytest.fixture(autouse=True)
async def told(standing: StandIns) -> None:
    await standing.tell(*whole_story())
    standing.held = [LAYERS, EMPTY]


async def test_the_index_has_analyses_by_subject_and_why_others_are_empty(
    web: httpx.AsyncClient,
) -> None:
    text = (await web.get(f"/evaluations/{E}/analyses")).text
    assert f'href="/evaluations/{E}/analyses/A3"' in text
    assert "How much does the time of a layer vary?" in text
    assert "<dt>No GPU.</dt><dd>Kernels</dd>" in text


async def test_a_page_has_verdict_chart_table_caveats_and_source(web: httpx.AsyncClient) -> None:
    response = await web.get(PAGE)
    text = response.text
    order = [
        text.index(part) for part in ("The slowest is &lt;b&gt;.", "<svg", "<table", "XSP A3.")
    ]
    assert order == sorted(order)
    assert "<b>" not in text
    assert "noisy" in text
    assert 'class="drawing broad"' in text
    assert 'class="drawing narrow"' in text
    assert "style-src-attr" in response.headers["content-security-policy"]
    assert "<style" not in text


async def test_the_columns_that_say_most_come_first_and_json_last(
    web: httpx.AsyncClient, standing: StandIns
) -> None:
    names = ("run", "scenario", "original", "name", "provider", "time")
    columns = tuple(Column(name=name, type="text") for name in names)
    rows = tuple((run, run, '["a", "b"]', f"{run}1", f"{run}2", "5") for run in ("r", "s"))
    table = Table(name="layers", title="Layers (A2)", id="A2", columns=columns, rows=rows)
    standing.held = [table]
    text = (await web.get(f"/evaluations/{E}/analyses/A2")).text
    heads = re.findall(r'<th[^>]*><a href="[^"]*sort[^"]*"[^>]*>([^<]*)</a>', text)
    assert heads == ["run", "name", "time", "scenario", "provider", "original"]


async def test_an_empty_analysis_offers_no_chart_to_download(
    web: httpx.AsyncClient, standing: StandIns
) -> None:
    standing.held = [LAYERS.model_copy(update={"rows": ()})]
    text = (await web.get(PAGE)).text
    assert "charts/layer_latency" not in text
    assert '<figure id="chart">' not in text


async def test_a_page_is_found_by_name_too_and_another_is_not(web: httpx.AsyncClient) -> None:
    assert (await web.get(f"/evaluations/{E}/analyses/layer_latency")).status_code == 200
    assert (await web.get(f"/evaluations/{E}/analyses/A99")).status_code == 404


async def test_rows_are_filtered_and_sorted_by_the_address(web: httpx.AsyncClient) -> None:
    text = (await web.get(f"{PAGE}?run=r&sort=time")).text
    body = text[text.index("<tbody>") :]
    assert "relu" not in body
    assert body.index("5 ms") < body.index("7 ms")


@pytest.mark.parametrize(
    ("suffix", "kind", "begins"),
    [
        ("svg", "image/svg+xml", b"<svg"),
        ("png", "image/png", b"\x89PNG"),
        ("pdf", "application/pdf", b"%PDF"),
        ("json", "application/json", b"{"),
    ],
)
async def test_a_chart_is_a_file(
    web: httpx.AsyncClient, suffix: str, kind: str, begins: bytes
) -> None:
    response = await web.get(f"/api/evaluations/{E}/charts/A3.{suffix}?run=r")
    assert response.headers["content-type"].partition(";")[0] == kind
    assert response.content.startswith(begins)


async def test_a_chart_of_unknown_form_or_parameter_says_what_there_is(
    web: httpx.AsyncClient,
) -> None:
    wrong = await web.get(f"/api/evaluations/{E}/charts/A3.gif")
    assert (wrong.status_code, wrong.json()["field"]) == (400, "chart")
    strange = await web.get(f"/api/evaluations/{E}/charts/A3.svg?rum=r")
    assert (strange.status_code, strange.json()["field"]) == (400, "rum")
    assert (await web.get(f"/api/evaluations/{E}/charts/kernels.svg")).status_code == 503


async def test_a_table_is_a_markdown_file(web: httpx.AsyncClient) -> None:
    text = (await web.get(f"/api/evaluations/{E}/tables/A3.md")).text
    assert "| r | conv | 5 ms |" in text
    assert "- r: noisy" in text


async def test_without_the_package_the_page_says_what_to_install(
    web: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawing, "can_draw", lambda: False)
    text = (await web.get(PAGE)).text
    assert "pip install &#39;mlscope[charts]&#39;" in text
    assert "<table" in text


async def test_before_there_are_tables_the_index_says_when(
    web: httpx.AsyncClient, standing: StandIns
) -> None:
    await standing.tell(*whole_story("e2")[:2])
    text = (await web.get("/evaluations/e2/analyses")).text
    assert "Analyses come when the evaluation has ended." in text
