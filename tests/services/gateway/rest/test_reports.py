"""Reports over HTTP: documents that load nothing, and an archive with an evaluation's tables."""

import hashlib
import html
import io
import json
import re
import zipfile

import httpx

from schemas.analysis import Column, Table
from tests.stand_ins import StandIns
from tests.stories import LATENCY, E, beginning, whole_story

OTHER = "fedcba9876543210"
BARS = {
    "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
    "mark": "bar",
    "encoding": {
        "x": {"field": "run", "type": "nominal"},
        "y": {"field": "p50", "type": "quantitative"},
    },
}
CHARTED = Table(
    name="throughput",
    title="Throughput",
    columns=(Column(name="run", type="text"), Column(name="p50", type="float", unit="ns")),
    rows=(("<b>r0</b>", 5.0),),
    verdict="It is fast & <new>.",
    source="A formula of `spans`.",
    chart=BARS,
)


async def test_a_report_is_one_document_that_loads_nothing(
    web: httpx.AsyncClient, standing: StandIns
) -> None:
    await standing.tell(*whole_story())
    standing.held = [CHARTED, *standing.held]
    report = await web.get(f"/evaluations/{E}/report")
    assert report.status_code == 200
    assert "default-src 'none'" in report.headers["content-security-policy"]
    text = report.text
    # As a file in a mail it comes without a header.
    assert '<meta http-equiv="Content-Security-Policy" content="default-src &#39;none&#39;' in text
    assert "<svg" in text
    assert "It is fast &amp; &lt;new&gt;." in text
    assert "A formula of <code>spans</code>." in text
    assert "mlscope run tiny" in text
    assert _loads_nothing(text)
    kept = await web.get(f"/api/evaluations/{E}/report?download=yes")
    assert kept.headers["content-disposition"] == f'attachment; filename="mlscope-{E}.html"'


def _loads_nothing(text: str) -> bool:
    return not re.findall(r'(?:src|href)="(?!#)|<script|url\(http', text)


async def test_a_comparison_is_one_document_too(web: httpx.AsyncClient, standing: StandIns) -> None:
    await standing.tell(*whole_story(), *whole_story(OTHER))
    verdict = f"{OTHER} is slower by 5% (4% to 6%)."
    plain = CHARTED.model_copy(update={"chart": None})
    conditions = plain.model_copy(update={"name": "conditions"})
    slower = LATENCY.model_copy(update={"name": "regressions", "verdict": verdict})
    standing.held, standing.comparison = [conditions], [plain, slower]
    page = (await web.get(f"/compare?runs={E},{OTHER}&price.a1=0.5&latency_ms=2")).text
    (address,) = re.findall(r'href="(/api/compare/report[^"]*download=yes)"', page)
    report = await web.get(html.unescape(address))
    name = f'attachment; filename="mlscope-{E}-{OTHER}.html"'
    assert report.headers["content-disposition"] == name
    assert _loads_nothing(report.text)
    command = f"mlscope compare {E} {OTHER} --figures --price a1=0.5 --latency-ms 2"
    parts = ("B is slower by 5%", 'id="conditions"', "It is fast", f"<pre>{command}</pre>")
    places = [report.text.index(part) for part in parts]
    assert places == sorted(places)


async def test_a_comparison_needs_analyses_and_two_evaluations(
    web: httpx.AsyncClient, standing: StandIns
) -> None:
    await standing.tell(*whole_story(), *beginning(OTHER))
    early = await web.get(f"/api/compare/report?evaluation={E}&evaluation={OTHER}")
    assert (early.status_code, "needs its analyses" in early.text) == (409, True)
    alone = await web.get(f"/api/compare/report?evaluation={E}")
    assert (alone.status_code, "second" in alone.text) == (400, True)


async def test_the_archive_has_every_table_and_its_hash(
    web: httpx.AsyncClient, standing: StandIns
) -> None:
    await standing.tell(*whole_story())
    standing.held = [CHARTED, *standing.held]
    response = await web.get(f"/api/evaluations/{E}/report.zip")
    archive = zipfile.ZipFile(io.BytesIO(response.content))
    manifest = json.loads(archive.read("manifest.json"))
    names = {"report.html", "specs/throughput.vl.json"}
    names |= {f"tables/{t.name}.{suffix}" for t in standing.held for suffix in ("parquet", "csv")}
    assert manifest["evaluation"] == E
    assert set(manifest["files"]) == names == set(archive.namelist()) - {"manifest.json"}
    for path, facts in manifest["files"].items():
        assert hashlib.sha256(archive.read(path)).hexdigest() == facts["sha256"]
    assert archive.read("tables/throughput.csv").startswith(b"run,p50")


async def test_without_analyses_there_is_no_report(
    web: httpx.AsyncClient, standing: StandIns
) -> None:
    await standing.tell(*beginning())
    refused = await web.get(f"/api/evaluations/{E}/report")
    assert refused.status_code == 409
    assert "needs its analyses" in refused.json()["message"]
    assert (await web.get("/api/evaluations/ffffffffffffffff/report")).status_code == 404


async def test_a_report_begins_with_its_figures_and_ends_with_its_caveats(
    web: httpx.AsyncClient, standing: StandIns
) -> None:
    await standing.tell(*whole_story())
    names = ("run", "scenario", "level", "median", "median_low", "median_high")
    columns = tuple(
        Column(
            name=name, type="text" if name in ("run", "scenario", "level") else "float", unit="ns"
        )
        for name in names
    )
    rows = (("r0", "online", "model", 5e6, 4e6, None),)
    latency = Table(name="latency", title="Latency", columns=columns, rows=rows, caveats=("few",))
    standing.held = [latency, CHARTED.model_copy(update={"caveats": ("few",)})]
    text = (await web.get(f"/evaluations/{E}/report")).text
    places = [
        text.index(part) for part in ('class="tile"', "4.00 … unknown", 'id="latency-picture"')
    ]
    places += [text.index(part) for part in ('id="contents"', "It is fast", 'id="caveats"')]
    assert places == sorted(places)


async def test_a_table_beside_its_chart_or_of_many_rows_is_folded(
    web: httpx.AsyncClient, standing: StandIns
) -> None:
    await standing.tell(*whole_story())
    plain = CHARTED.model_copy(update={"name": "short", "title": "Short", "chart": None})
    rows = tuple((f"r{number}", 5.0) for number in range(13))
    long = plain.model_copy(update={"name": "long", "title": "Long", "rows": rows})
    standing.held = [CHARTED, plain, long]
    text = (await web.get(f"/evaluations/{E}/report")).text
    folds = re.findall(r'id="(\w+)">\n<h3>.*?<details class="table"( open)?>', text, re.DOTALL)
    assert folds == [("throughput", ""), ("short", " open"), ("long", "")]
    assert "Table, 13 rows" in text, "the summary says how much is folded"
    assert text.count("<td>r12</td>") == 1
