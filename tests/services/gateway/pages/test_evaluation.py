"""The page of one evaluation: live or the record, intervals under estimates, conditions last."""

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
    made = tuple(Column(name=each, type="float", unit="ns") for each in columns)
    return Table(name=name, title=name, columns=made, rows=(row,) if row else (), **more)


def _page(*tables: Table, ended: bool = True, note: str = "") -> str:
    total = {table.name: 5 for table in tables}
    found = Tables(evaluation=E, tables=tables, total_rows=total)
    return html_of(evaluation_view(_status(ended=ended), found, note))


def test_it_is_live_until_it_has_ended() -> None:
    assert 'data-live="yes"' in _page(ended=False)
    assert 'data-live="no"' in _page()


def test_bounds_stand_under_their_estimate_and_have_no_column() -> None:
    shown = _page(_table("t", "p50", "p50_low", "p50_high", row=(5e6, 4e6, 6e6)))
    assert "<small>4 … 6 ms</small>" in shown
    assert shown.count(">p50</th>") == 1
    assert "p50 low" not in shown


def test_conditions_come_behind_results() -> None:
    shown = _page(_table("conditions", "a"), _table("latency", "a"))
    assert shown.index('data-table="latency"') < shown.index('data-table="conditions"')


def test_caveats_and_rows_left_out_are_said() -> None:
    shown = _page(_table("t", "a", row=(1.0,), caveats=("r0: noisy <b>",)), note="a note")
    assert "r0: noisy &lt;b&gt;" in shown
    assert "The first 1 of 5 rows; the files have all rows." in shown
    assert "a note" in shown


def test_every_table_can_be_had_as_files() -> None:
    shown = _page(_table("t", "a"))
    for suffix in ("", ".csv", ".parquet", ".arrow"):
        assert f'href="/api/evaluations/{E}/tables/t{suffix}"' in shown


def test_a_caveat_of_many_runs_is_said_once() -> None:
    page = _page(_table("latency", "run", row=("r0",), caveats=("r0: few", "r1: few")))
    assert "r0, r1: few" in page
    assert page.count("few") == 1


def test_it_leads_to_its_model_unless_that_came_with_the_request() -> None:
    assert '<a href="/models/tiny/1.0.0">tiny:1.0.0</a>' in _page()
    status = _status()
    assert status.request is not None
    request = status.request.model_copy(update={"model": a_model()})
    inline = status.model_copy(update={"request": request})
    html = html_of(evaluation_view(inline, Tables(evaluation=E, tables=())))
    assert "/models/tiny" not in html
