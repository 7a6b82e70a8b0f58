"""What holds of every comparison, whatever the evaluations."""

import pytest

from services.analyzer.building.charts import fields_of
from services.analyzer.comparisons import COMPARISONS, comparisons_of
from services.analyzer.comparisons.source import Comparison, Source
from tests.services.analyzer.comparisons.reading import NO_TERMS, batch, source, table_of

_SOURCES = {
    "no tables": [Source("e1", {}), Source("e2", {})],
    "no runs": [source("e1"), source("e2")],
    "one batch": [source("e1", batch(1, 1000)), source("e2", batch(2, 1000))],
    "open loop": [source("e1", batch(1, 1000, queries=[[0, 0, 1, 0, 0, 0, 9, 9, 0]]))] * 2,
}


@pytest.mark.parametrize("case", _SOURCES)
@pytest.mark.parametrize("comparison", COMPARISONS, ids=lambda each: each.name)
def test_little_or_nothing_still_makes_every_comparison(comparison: Comparison, case: str) -> None:
    table = table_of(comparison, _SOURCES[case])
    assert table.verdict.endswith(".")
    assert all(len(row) == len(table.columns) for row in table.rows)


def test_runs_that_were_cut_off_are_left_out_of_every_comparison_and_named() -> None:
    part = batch(2, 1000, end="cancelled")
    whole = source("whole", batch(2, 1500))
    tables = comparisons_of([source("e1", part), whole], NO_TERMS)
    without = comparisons_of([source("e1"), whole], NO_TERMS)
    for table, expected in zip(tables, without, strict=True):
        assert (table.rows, table.verdict) == (expected.rows, expected.verdict), table.name
        assert table.caveats[0] == "e1/b2 was cut off by a cancellation and is not compared"


@pytest.mark.parametrize("comparison", COMPARISONS, ids=lambda each: each.name)
def test_columns_are_described_and_charted(comparison: Comparison) -> None:
    names = [column.name for column in comparison.columns]
    assert len(set(names)) == len(names)
    assert comparison.source.endswith((".", ")."))
    assert fields_of(dict(comparison.chart or {})) <= set(names)
    for column in comparison.columns:
        assert column.description.endswith((".", ")."))
        assert column.unit or column.type in ("text", "bool")
