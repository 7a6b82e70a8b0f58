"""Rows of the survey's tables."""

from benchmarks.survey.rows import rates_of
from tests.services.analyzer.golden import frames_in
from tests.services.analyzer.tables.traced import model_run


def test_a_batch_size_that_a_model_refused_has_no_rate() -> None:
    refused = model_run(run="r2", batch_size=2, end="failed", queries=[], spans=[])
    frames = frames_in({"runs": [model_run(batch_size=1), refused]})
    assert len(frames.measured) == 2
    assert rates_of(frames.measured) == {1: 1e9 / 10_000}
