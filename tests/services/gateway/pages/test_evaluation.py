"""The page of one evaluation: live or the record, results first, analyses as links."""

import re

from mlscope.client.brief import brief
from mlscope.evaluation.fold import fold
from mlscope.evaluation.status import status_of
from schemas.analysis import Column, Table, Tables
from schemas.status import EvaluationStatus
from services.gateway.pages.evaluation import evaluation_view
from services.gateway.rendering import html_of
from tests.stories import E, a_model, beginning, whole_story


def _status(*, ended: bool = True) -> EvaluationStatus:
    return status_of(fold(whole_story() if ended else beginning()))


def _table(name: str, *columns: str, row: tuple[object, ...] = (), **more: object) -> Table:
    made = tuple(
        Column(name=each, type="text" if each == "run" else "float", unit="ns") for each in columns
    )
    return Table(name=name, title=name, columns=made, rows=(row,) if row else (), **more)


def _page(*tables: Table, ended: bool = True, note: str = "") -> str:
    total = {table.name: len(table.rows) for table in tables}
    found = Tables(evaluation=E, tables=tables, total_rows=total)
    return html_of(evaluation_view(_status(ended=ended), found, found, note=note))


LATENCY = _table(
    "latency", "run", "median", "median_low", "median_high", row=("r0", 5e6, 4e6, 6e6), verdict="5."
)


def test_it_is_live_until_it_has_ended() -> None:
    assert 'data-live="yes"' in _page(ended=False)
    assert 'data-live="no"' in _page()
    assert 'id="strip-throughput"' in _page(ended=False)
    assert 'data-field="p50">\N{EN DASH}</td>' in _page(ended=False)
    assert 'id="strip-throughput"' not in _page()


def test_facts_that_could_not_be_read_are_said() -> None:
    none = Tables(evaluation=E, tables=(), total_rows={})
    status = _status().model_copy(update={"unread_facts": 2})
    shown = html_of(evaluation_view(status, none, none, note="No analyzer."))
    assert "This page lacks 2 facts that could not be read: of a newer mlscope" in shown
    assert "No analyzer.</p>" in shown
    assert "could not be read" not in _page()


def test_results_come_first_with_their_intervals() -> None:
    shown = _page(LATENCY, _table("conditions", "run", row=("r0",), verdict="All quiet."))
    assert "<small>4.00 … 6.00</small>" in shown
    assert shown.index("4.00 … 6.00") < shown.index('id="runs"')
    assert "<dt>Conditions</dt><dd>All quiet.</dd>" in shown


def test_throughput_stands_beside_latency_of_the_same_run() -> None:
    rate = _table("throughput", "run", "samples_per_s", row=("r0", 200.0))
    tables = Tables(evaluation=E, tables=(LATENCY, rate))
    view = evaluation_view(_status(), Tables(evaluation=E, tables=()), tables)
    figures = {name: figure and figure.text for name, figure in view.runs[0].figures.items()}
    assert view.runs[0].run == "r0"
    assert figures == {"p50": "5.00 ms", "p90": None, "p99": None, "rate": "200 ns"}


def test_a_percentile_without_upper_end_says_on_the_page_what_the_command_line_says() -> None:
    columns = ("run", "p90", "p90_low", "p90_high", "p99", "p99_low", "p99_high")
    table = _table("latency", *columns, row=("r0", 5e6, 4e6, 6e6, 9e6, 8e6, None))
    printed = list(brief(table).rows)
    assert printed == [("5.00 ms (4.00 … 6.00)", "9.00 ms (8.00 … unknown)")]
    html = _page(table)
    assert "5.00\N{NO-BREAK SPACE}ms<small>4.00 … 6.00</small>" in html
    assert "9.00\N{NO-BREAK SPACE}ms<small>8.00 … unknown</small>" in html


def test_every_section_can_be_linked_to() -> None:
    headings = re.findall(r"<h2[^>]*>", _page(LATENCY, ended=False))
    assert headings
    assert all("id=" in heading for heading in headings)


def test_a_note_says_why_results_are_missing() -> None:
    assert "the analyzer is away &lt;b&gt;" in _page(note="the analyzer is away <b>")


def test_an_analysis_is_a_link_with_its_verdict_and_not_its_table() -> None:
    shown = _page(_table("layers", "run", row=("r0",), verdict="Conv is slowest.", id="A2"))
    assert f'href="/evaluations/{E}/analyses/A2"' in shown
    assert "Conv is slowest." in shown
    assert 'data-table="layers"' not in shown


def test_many_empty_analyses_have_their_reason_once() -> None:
    shown = _page(*(_table(name, "run", verdict="No GPU.") for name in ("kernels", "copies")))
    assert shown.count("No GPU.") == 1


def test_a_caveat_of_many_runs_and_tables_is_said_once() -> None:
    caveats = ("r0: few", "r1: few")
    page = _page(
        LATENCY.model_copy(update={"caveats": caveats}),
        _table("throughput", "run", row=("r0",), caveats=caveats),
    )
    section = page[
        page.index('id="caveats"') : page.index("</section>", page.index('id="caveats"'))
    ]
    assert "r0, r1: few" in section
    assert section.count("few") == 1


def test_it_leads_to_its_model_unless_that_came_with_the_request() -> None:
    assert '<a href="/models/tiny/1.0.0">tiny:1.0.0</a>' in _page()
    status = _status()
    assert status.request is not None
    request = status.request.model_copy(update={"model": a_model()})
    inline = status.model_copy(update={"request": request})
    none = Tables(evaluation=E, tables=())
    html = html_of(evaluation_view(inline, none, none))
    assert "/models/tiny" not in html


def test_the_trace_is_linked_where_this_gateway_has_its_page() -> None:
    none = Tables(evaluation=E, tables=())
    pages = frozenset({"/evaluations/{evaluation}/trace"})
    assert evaluation_view(_status(), none, none).trace_address == ""
    view = evaluation_view(_status(), none, none, pages=pages)
    assert view.trace_address == f"/evaluations/{E}/trace"
    assert view.runs[0].address == f"/evaluations/{E}/trace?run=r0"


def test_what_was_asked_is_one_line() -> None:
    none = Tables(evaluation=E, tables=())
    asked = evaluation_view(_status(), none, none).asked
    assert "at batch 1" in asked
    assert "level" in asked
