"""Charts fitted to their rows: facets, names, colours, sizes, and what cannot be drawn."""

import json
from typing import Any

import pytest

from schemas.analysis import Table
from services.analyzer.building.charts import Axis, layer_bars, ranked, stacked
from services.analyzer.building.table import estimate_columns, int_column, text_column
from services.analyzer.comparisons.regressions import COMPARISON as REGRESSIONS
from services.analyzer.tables import ANALYSES
from services.gateway.charts.choosing import Choosing
from services.gateway.charts.fitting import MOST_NAMES, NARROW, WIDE, Fitted, fitted
from services.gateway.charts.theme import PAGE, PRINT
from services.gateway.charts.thinning import MOST_BARS
from services.gateway.pages.colours import HUES, colour_of
from tests.services.analyzer.golden import FOLDER, frames_in

COLUMNS = (
    text_column("run", "Run."),
    int_column("index", "Index."),
    text_column("name", "Name."),
    text_column("type", "Type."),
    *estimate_columns("time", "Time."),
)


def a_table(rows: Any, chart: dict[str, Any]) -> Table:
    """Return a table of layers: run, index, name, type, time."""
    filled = tuple((*row, row[-1] and row[-1] * 0.9, row[-1] and row[-1] * 1.1) for row in rows)
    return Table(name="t", title="T", columns=COLUMNS, rows=filled, chart=chart)


LAYERS = layer_bars(Axis("time", "Time", "ns"), "name")
NAMES = ranked(("name", "Name"), Axis("time", "Time", "ns"))


def spec_of(found: Fitted) -> dict[str, Any]:
    """Return the specification, which must be there."""
    assert found.spec is not None
    return found.spec


def test_one_run_is_not_split() -> None:
    spec = spec_of(fitted(a_table([("r", 0, "a", "Conv", 5.0)], LAYERS), PAGE))
    assert "facet" not in spec
    assert spec["layer"]


def test_two_runs_are_below_each_other() -> None:
    rows = [("r", 0, "a", "Conv", 5.0), ("s", 0, "a", "Conv", 6.0)]
    assert spec_of(fitted(a_table(rows, LAYERS), PAGE))["facet"]["row"]["field"] == "run"


def test_a_type_has_its_own_colour() -> None:
    rows = [("r", 0, "a", "Conv", 5.0), ("r", 1, "b", "Relu", 6.0)]
    bar = spec_of(fitted(a_table(rows, LAYERS), PAGE))["layer"][0]
    scale = bar["encoding"]["color"]["scale"]
    assert dict(zip(scale["domain"], scale["range"], strict=True)) == {
        "Conv": colour_of("Conv"),
        "Relu": colour_of("Relu"),
    }


def test_a_result_has_the_colour_of_its_meaning() -> None:
    names = [text_column(name, "") for name in ("second_run", "second", "result")]
    rows = (("r", "b", "slower", 0.1, 0.05, 0.2), ("s", "b", "faster", -0.1, -0.2, -0.05))
    columns = (*names, *estimate_columns("change", "Change.", "1"))
    table = Table(name="t", title="", columns=columns, rows=rows, chart=REGRESSIONS.chart)
    scale = spec_of(fitted(table, PAGE))["layer"][0]["encoding"]["color"]["scale"]
    colours = dict(zip(scale["domain"], scale["range"], strict=True))
    assert colours == {"faster": HUES["blue"][0], "slower": HUES["orange"][0]}


def test_many_types_are_summed_up_in_the_legend() -> None:
    rows = [("r", n, f"l{n}", f"T{n}", float(n + 1)) for n in range(40)]
    bar = spec_of(fitted(a_table(rows, LAYERS), PAGE))["layer"][0]
    domain = bar["encoding"]["color"]["scale"]["domain"]
    assert (len(domain), domain[0], domain[-1]) == (11, "T39", "other (30)")


def test_a_legend_of_long_names_is_no_wider_than_the_chart() -> None:
    def columns(letters: int) -> int:
        rows = [("r", n, "n", f"{'k' * letters}{n}", 5.0) for n in range(8)]
        found = spec_of(fitted(a_table(rows, LAYERS), PAGE))
        return int(found["config"]["legend"]["columns"])

    assert (columns(3), columns(40)) == (5, 3)


def test_the_largest_of_many_names_are_drawn_and_the_note_says_so() -> None:
    rows = [("r", n, f"kernel {n}", "", float(n + 1)) for n in range(99)]
    found = fitted(a_table([*rows, ("r", 99, "saved", "", -90.0)], NAMES), PAGE)
    drawn = [row["name"] for row in spec_of(found)["data"]["values"]]
    assert len(drawn) == MOST_NAMES
    assert {"kernel 98", "saved"} <= set(drawn), "to either side"
    assert found.notes == ("The chart shows the 30 largest of 100; the table has all.",)


def test_of_too_many_bars_the_largest_of_each_stretch_are_drawn() -> None:
    def time_of(layer: int) -> float:
        return 900.0 if layer == 77_777 else 1.0 + layer % 100

    rows = [("r", n, "n", "Conv", time_of(n)) for n in range(100_000)]
    rows += [("s", n, "n", "Conv", 5.0) for n in range(3)]
    found = fitted(a_table(rows, LAYERS), PAGE, choosing=Choosing("index", 4321))
    drawn = spec_of(found)["data"]["values"]
    large = [row["index"] for row in drawn if row["run"] == "r"]
    assert len(large) == MOST_BARS + 1
    assert large == sorted(large), "in the order of execution"
    assert {99, 199, 4321, 77_777} <= set(large)
    assert sum(row["run"] == "s" for row in drawn) == 3
    (note,) = found.notes
    assert note.startswith("Of more than 1000 bars the chart shows the largest of every 100;")


def test_all_bars_that_can_be_told_apart_are_drawn() -> None:
    rows = [("r", n, "n", "Conv", 5.0) for n in range(MOST_BARS)]
    found = fitted(a_table(rows, LAYERS), PAGE)
    assert (len(spec_of(found)["data"]["values"]), found.notes) == (MOST_BARS, ())


def test_long_names_are_shortened_and_stay_distinct() -> None:
    names = [f"void at::native::vectorized<{'int, ' * 200}{n}{'float, ' * 9}>" for n in range(2)]
    rows = [("r", n, name, "", 1.0) for n, name in enumerate(names)]
    drawn = {row["name"] for row in spec_of(fitted(a_table(rows, NAMES), PAGE))["data"]["values"]}
    assert len(drawn) == 2
    assert max(map(len, drawn)) < 50


def test_rows_without_values_are_no_chart_and_said() -> None:
    found = fitted(a_table([("r", 0, "a", "Conv", None)], NAMES), PAGE)
    assert (found.spec, len(found.notes)) == (None, 1)


def test_a_table_without_a_chart_has_none() -> None:
    table = a_table([], LAYERS).model_copy(update={"chart": None})
    assert fitted(table, PAGE) == Fitted(None)


def test_the_page_recolours_and_a_file_does_not() -> None:
    table = a_table([("r", 0, "a", "Conv", 5.0)], LAYERS)
    assert "var(--ink" in json.dumps(spec_of(fitted(table, PAGE)))
    assert "var(" not in json.dumps(spec_of(fitted(table, PRINT)))


def test_a_narrow_chart_is_narrower() -> None:
    rows = [("r", n, "a", "Conv", 5.0) for n in range(50)]
    widths = [
        spec_of(fitted(a_table(rows, LAYERS), PAGE, size))["width"] for size in (WIDE, NARROW)
    ]
    assert widths[1] < NARROW.width < widths[0] < WIDE.width


def test_a_table_stays_as_it_was() -> None:
    table = a_table(
        [("r", 0, "a", "Conv", 5.0)], stacked(("index", ""), {"time": "t"}, Axis("", ""))
    )
    before = table.model_dump_json()
    fitted(table, PAGE)
    assert table.model_dump_json() == before


@pytest.mark.parametrize("folder", sorted(FOLDER.iterdir()), ids=lambda folder: folder.name)
def test_every_golden_table_is_fitted(folder: Any) -> None:
    (analysis,) = [each for each in ANALYSES if each.name == folder.name.partition("-")[0]]
    table = analysis.compute(frames_in(json.loads((folder / "input.json").read_text())))
    found = fitted(table, PRINT)
    if analysis.chart is not None:
        assert spec_of(found)["data"]["values"]
        assert json.loads(json.dumps(found.spec)) == found.spec
