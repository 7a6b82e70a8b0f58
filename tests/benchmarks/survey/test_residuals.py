"""The residual of layers, between and overhead: from blocks apart, so that it can be off."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from benchmarks.survey.residuals import (
    SKIPPED,
    Block,
    Residual,
    blocks_of,
    residual_of,
    undisturbed,
)
from services.analyzer.frames.evaluation import Run
from tests.services.analyzer.golden import frames_in
from tests.services.analyzer.tables.reading import query

EACH = SKIPPED + 1
ALIKE = Block(model=100.0, layered=120.0, layers=90.0, between=30.0)


def found(blocks: Sequence[Block]) -> Residual:
    residual = residual_of(blocks)
    assert residual is not None
    return residual


def run_of(level: int, predict_ns: Sequence[int], layers_ns: Sequence[int] = ()) -> Run:
    """Return a run of blocks of one query each that counts, behind those that are skipped."""
    rows: list[list[Any]] = []
    queries = []
    for n in range(len(predict_ns) * EACH):
        block, at = divmod(n, EACH)
        begin = 10_000 * n
        taken = 1000 if at < SKIPPED else predict_ns[block]
        rows.append([10 * n, None, 2, "predict", begin, taken, 0, n, block, None])
        for layer, ns in enumerate(layers_ns):
            start = begin + 50 * layer
            span = [10 * n + 1 + layer, None, 3, f"conv{layer}", start, ns, 0, n, block, layer]
            rows.append(span)
        queries.append(query(n, begin, begin + 2000, block=block))
    told = {"run": "r", "level": level, "queries": queries, "spans": rows}
    return frames_in({"runs": [told]}).measured[0]


def test_what_repeats_leaves_no_residual() -> None:
    residual = found([ALIKE] * 18)
    assert (residual.residual, residual.triples, residual.scatter) == (0.0, 6, 0.0)
    assert (residual.interval.low, residual.interval.high) == (0.0, 0.0)


@pytest.mark.parametrize("term", ["layers", "between", "layered", "model"])
def test_a_term_that_differs_in_a_third_of_the_blocks_shows(term: str) -> None:
    """30 ns more in that third which gives a term is about 30% of M, whatever the term."""
    grown = replace(ALIKE, **{term: getattr(ALIKE, term) + 30.0})
    thirds = [[grown if at == n else ALIKE for at in range(3)] for n in range(3)]
    assert max(abs(found(triple).residual) for triple in thirds) >= 0.13


def test_a_slow_block_of_level_framework_does_not_cancel() -> None:
    """Its layers, time between and whole are of one look; the terms are not."""
    slow = Block(model=100.0, layered=150.0, layers=120.0, between=30.0)
    thirds = [[slow if at == n else ALIKE for at in range(3)] for n in range(3)]
    assert [round(found(triple).residual, 2) for triple in thirds] == [0.3, 0.0, -0.3]


def test_overlapping_layers_show() -> None:
    """Two layers of 60 ns, 10 of them at once, in a predict of 120: 10 ns are counted twice."""
    plain, layered = run_of(2, (100,) * 3), run_of(3, (120,) * 3, (60, 60))
    blocks = blocks_of(plain, layered)
    assert [(block.layers, block.between) for block in blocks] == [(120, 10)] * 3
    assert found(blocks).residual == pytest.approx(0.1)


def test_a_blocks_first_queries_do_not_count() -> None:
    blocks = blocks_of(run_of(2, (100, 102)), run_of(3, (120, 121), (50, 40)))
    assert [(block.model, block.layered) for block in blocks] == [(100, 120), (102, 121)]


def test_a_disturbed_triple_moves_nothing() -> None:
    disturbed = Block(model=100.0, layered=900.0, layers=90.0, between=30.0)
    assert found([*[ALIKE] * 6, disturbed, *[ALIKE] * 8]).residual == 0.0


def test_two_pairs_of_blocks_cannot_tell() -> None:
    assert residual_of([ALIKE] * 2) is None


def test_pairs_that_a_neighbour_disturbed_are_told_apart() -> None:
    disturbed = [replace(ALIKE, model=140.0), replace(ALIKE, layered=200.0)]
    assert undisturbed([*[ALIKE] * 4, *disturbed]) == [ALIKE] * 4
    assert undisturbed([]) == []
