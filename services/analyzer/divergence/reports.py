"""What was compared, as tables: over all samples, and sample by sample."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from mlscope.accuracy import Comparison, Outcome
from mlscope.accuracy.comparison import AGREEMENT
from mlscope.counts import be, many
from schemas.analysis import Column, Table
from services.analyzer.divergence.sides import Side
from services.analyzer.tables.table import estimate, real, text, whole

_OVERALL = (
    text("output", "The model's output; '' is the only one."),
    text("measure", "What is compared."),
    *estimate("value", "Over all samples, as `method` says.", "1"),
    whole("samples", "Samples it is computed of."),
    whole("excluded", "Samples left out: of one evaluation only, undefined or infinite."),
    text("method", "Unit and convention."),
    text("note", "What must be known before the number is used."),
)


def overall(first: Side, second: Side, found: Mapping[str, Comparison]) -> Table:
    """Return the measures over all samples, a row each."""
    outcomes = [(output, each) for output, c in found.items() for each in c.outcomes.values()]
    rows = [_row(output, outcome) for output, outcome in outcomes]
    samples = len(first.predictions.keys() & second.predictions.keys())
    same = [outcome for _, outcome in outcomes if outcome.name == AGREEMENT]
    said = ""
    if same and same[0].value is not None:
        said = f" First answers agree for {round(same[0].value * same[0].n)} of {same[0].n}."
    return Table(
        name="divergence",
        title=f"How far {first.name} and {second.name} are apart",
        columns=_OVERALL,
        rows=tuple(rows),
        verdict=f"{many(samples, 'sample')} {be(samples)} in both.{said}",
    )


def _row(output: str, outcome: Outcome) -> tuple[Any, ...]:
    interval = outcome.interval
    return (
        output,
        outcome.name,
        outcome.value,
        interval.low if interval else None,
        interval.high if interval else None,
        outcome.n,
        outcome.excluded,
        outcome.method,
        "; ".join(outcome.caveats),
    )


def each_sample(first: Side, found: Mapping[str, Comparison]) -> Table:
    """Return a row a sample and output; columns are the measures that any of them has."""
    measures = dict.fromkeys(
        name for c in found.values() for values in c.by_sample.values() for name in values
    )
    columns: tuple[Column, ...] = (
        text("output", "The model's output; '' is the only one."),
        whole("sample", "The sample's index in its dataset."),
        text("name", "The sample's name."),
        *(real(name.replace(" ", "_"), f"{name} of this sample.", "1") for name in measures),
    )
    rows = [
        (
            output,
            int(sample),
            first.predictions[int(sample)].name,
            *(_finite(values.get(name)) for name in measures),
        )
        for output, comparison in found.items()
        for sample, values in sorted(comparison.by_sample.items(), key=lambda each: int(each[0]))
    ]
    return Table(
        name="divergence_samples",
        title="Sample by sample",
        columns=columns,
        rows=tuple(rows),
        verdict="A dash is undefined or infinite.",
    )


def _finite(value: float | None) -> float | None:
    return value if value is not None and np.isfinite(value) else None
