"""What holds of every comparison, whatever the evaluations."""

import pytest

from services.analyzer.building.charts import fields_of
from services.analyzer.comparisons import COMPARISONS
from services.analyzer.comparisons.source import Comparison, Source
from tests.services.analyzer.comparisons.reading import batch, source, table_of

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


@pytest.mark.parametrize("comparison", COMPARISONS, ids=lambda each: each.name)
def test_columns_are_described_and_charted(comparison: Comparison) -> None:
    names = [column.name for column in comparison.columns]
    assert len(set(names)) == len(names)
    assert comparison.source.endswith((".", ")."))
    assert fields_of(dict(comparison.chart or {})) <= set(names)
    for column in comparison.columns:
        assert column.description.endswith((".", ")."))
        assert column.unit or column.type in ("text", "bool")
