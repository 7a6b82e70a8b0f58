"""Results in a notebook: escaped, bounded, with what a table says of itself."""

from mlscope.client.notebook import MOST_ROWS, evaluation_html
from mlscope.client.results import ListedEvaluations, ResultTable, ResultTables
from mlscope.evaluation.fold import fold
from mlscope.evaluation.status import status_of
from schemas.analysis import Estimate, Headline, Tables
from tests.stories import LATENCY, E, beginning, whole_story


def test_a_table_shows_rows_with_units_verdict_and_caveats() -> None:
    html = ResultTable(LATENCY.model_copy(update={"caveats": ("a <b> caveat",)}))._repr_html_()
    assert "<td>r0</td>" in html
    assert "5 ms" in html or "5.00 ms" in html
    assert LATENCY.verdict in html
    assert "<li>a &lt;b&gt; caveat</li>" in html


def test_a_long_table_says_how_much_it_shows() -> None:
    rows = tuple((f"r{n}", 1.0) for n in range(MOST_ROWS + 7))
    html = ResultTable(LATENCY.model_copy(update={"rows": rows}))._repr_html_()
    assert html.count("<tr>") == MOST_ROWS + 1
    assert f"The first {MOST_ROWS} of {MOST_ROWS + 7} rows." in html


def test_tables_show_their_verdicts() -> None:
    html = ResultTables(Tables(evaluation=E, tables=(LATENCY,)))._repr_html_()
    assert LATENCY.verdict in html
    assert "<td>2</td>" in html


def test_an_evaluation_links_to_its_page_and_lists_its_runs() -> None:
    status = status_of(fold(whole_story()))
    linked = status.model_copy(update={"address": "http://127.0.0.1:8080/evaluations/e"})
    html = evaluation_html(linked)
    assert '<a href="http://127.0.0.1:8080/evaluations/e">' in html
    assert "analyzed" in html
    assert "<td>r1</td>" in html
    bad = evaluation_html(status.model_copy(update={"address": "javascript:x", "model": "<i>"}))
    assert "javascript" not in bad
    assert "&lt;i&gt;" in bad


def test_evaluations_are_listed_with_their_figures() -> None:
    figures = {
        "latency_ns": Estimate(value=5e6, low=4.9e6, high=5.1e6),
        "samples_per_s": Estimate(value=200.0, low=190.0, high=210.0),
    }
    headline = Headline(run="r0", agent="a1", scenario="online", **figures)
    status = status_of(fold(whole_story())).model_copy(
        update={"headlines": (headline,), "model": "<i>", "address": "http://127.0.0.1/e"}
    )
    html = ListedEvaluations((status, status_of(fold(beginning()))))._repr_html_()
    assert html.count("<tr>") == 3
    assert "<td>online, batch 1</td><td>5.00 ms (4.90 … 5.10)</td>" in html
    assert '<a href="http://127.0.0.1/e">' in html
    assert "&lt;i&gt;" in html
    assert "No evaluation fits" in ListedEvaluations()._repr_html_()
