"""Tables of a comparison: over all samples, and sample by sample."""

from collections.abc import Mapping

import numpy as np

from mlscope.accuracy import Comparison, Outcome
from mlscope.accuracy.comparison import AGREEMENT
from mlscope.counts import be, many
from schemas.analysis import Column, Table
from services.analyzer.building.table import estimate_columns, float_column, int_column, text_column
from services.analyzer.divergence.sides import Side

_OVERALL = (
    text_column("output", "The model's output; '' if there is only one."),
    text_column("measure", "Name of the measure."),
    *estimate_columns("value", "Value over all samples, by `method`.", "1"),
    int_column("samples", "Samples compared."),
    int_column("excluded", "Samples left out: in one evaluation only, undefined or infinite."),
    text_column("method", "Unit and convention of the value."),
    text_column("note", "Caveats of the value."),
)


def overall_table(first: Side, second: Side, comparisons: Mapping[str, Comparison]) -> Table:
    """Return a table with a row for each output and measure, over all samples.

    `comparisons` are by output; `first` and `second` are the sides compared.
    """
    rows: list[tuple[object, ...]] = []
    agreements: list[Outcome] = []
    for output, comparison in comparisons.items():
        for outcome in comparison.outcomes.values():
            interval = outcome.interval
            ends = (interval.low, interval.high) if interval else (None, None)
            counts, caveats = (outcome.n, outcome.excluded), "; ".join(outcome.caveats)
            measured = (outcome.name, outcome.value, *ends, *counts, outcome.method, caveats)
            rows.append((output, *measured))
            if outcome.name == AGREEMENT:
                agreements.append(outcome)
    samples = len(first.predictions.keys() & second.predictions.keys())
    verdict = f"{many(samples, 'sample')} {be(samples)} in both."
    if agreements and agreements[0].value is not None:
        agreed = round(agreements[0].value * agreements[0].n)
        verdict += f" First answers agree for {agreed} of {agreements[0].n}."
    return Table(
        name="divergence",
        title=f"How far {first.name} and {second.name} are apart",
        columns=_OVERALL,
        rows=tuple(rows),
        verdict=verdict,
    )


def sample_table(first: Side, comparisons: Mapping[str, Comparison]) -> Table:
    """Return a table with a row for each output and sample, and a column for each measure."""
    measures = list(
        dict.fromkeys(
            measure
            for comparison in comparisons.values()
            for values in comparison.by_sample.values()
            for measure in values
        )
    )
    columns: tuple[Column, ...] = (
        text_column("output", "The model's output; '' if there is only one."),
        int_column("sample", "The sample's index in its dataset."),
        text_column("name", "The sample's name."),
        *(
            float_column(measure.replace(" ", "_"), f"{measure} of this sample.", "1")
            for measure in measures
        ),
    )
    rows = []
    for output, comparison in comparisons.items():
        for sample, values in sorted(comparison.by_sample.items(), key=lambda pair: int(pair[0])):
            cells = (values.get(measure) for measure in measures)
            finite = (v if v is not None and np.isfinite(v) else None for v in cells)
            rows.append((output, int(sample), first.predictions[int(sample)].name, *finite))
    return Table(
        name="divergence_samples",
        title="Sample by sample",
        columns=columns,
        rows=tuple(rows),
        verdict="A dash marks an undefined or infinite value.",
    )
