"""Queries of traces that torch.profiler really wrote: steps, annotations, or all of it."""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch
from torch.profiler import ProfilerActivity, profile, record_function

from mlscope.importing.kineto.queries import queries_of, repeated_names
from mlscope.importing.reading import read_foreign
from mlscope.importing.recording import Recording
from schemas.level import Level
from schemas.run import QUERIES_GUESSED

Calls = Callable[[], Any]


def _traced(path: Path, calls: Calls, **options: Any) -> Recording:
    with torch.inference_mode(), profile(activities=[ProfilerActivity.CPU], **options) as profiler:
        calls()
    profiler.export_chrome_trace(str(path))
    return read_foreign(path)


def _products(count: int, *names: str) -> Calls:
    """Return so many products, each in a row of annotations of these names ('' is none)."""
    x = torch.ones(4, 4)

    def calls() -> None:
        for _ in range(count):
            for name in names:
                with record_function(name) if name else nullcontext():
                    torch.mm(x, x)

    return calls


def _at(recording: Recording, level: Level) -> list[str]:
    return recording.spans.filter(level=int(level))["name"].to_list()


def test_annotations_of_one_name_are_queries_where_no_step_is_named(tmp_path: Path) -> None:
    x = torch.ones(4, 4)

    def calls() -> None:
        for _ in range(3):
            with record_function("my_inference"), record_function("inner"):
                torch.mm(x, x)

    found = _traced(tmp_path / "t.json", calls)
    layers = found.spans.filter(level=int(Level.FRAMEWORK))
    assert (found.roots.height, layers["query"].to_list()) == (3, [0, 1, 2])
    assert _at(found, Level.MODEL) == ["predict", "inner"] * 3
    told = "the trace names no steps, so each of 3 annotations 'my_inference' is a query"
    assert f"{QUERIES_GUESSED}{told}" in found.notes


def test_annotations_called_query_go_before_others_and_are_no_guess(tmp_path: Path) -> None:
    found = _traced(tmp_path / "t.json", _products(2, "other", "query"))
    assert found.roots.height == 2
    assert _at(found, Level.MODEL).count("other") == 2
    assert not any(note.startswith(QUERIES_GUESSED) for note in found.notes)


@pytest.mark.parametrize(
    ("count", "names", "named"),
    [
        (3, ("", ""), "where a query begins"),
        (1, ("once",), "where a query begins"),
        (2, ("prepare", "run"), "any of the annotations 'prepare', 'run' may be the queries"),
        (2, ("enumerate(DataLoader)#x.__next__", ""), "where a query begins"),
    ],
    ids=["bare", "once", "two names", "PyTorch's own"],
)
def test_a_trace_without_a_name_for_queries_is_one_and_says_what_to_do(
    tmp_path: Path, count: int, names: tuple[str, ...], named: str
) -> None:
    found = _traced(tmp_path / "t.json", _products(count, *names))
    assert found.roots.height == 1
    (note,) = [each for each in found.notes if each.startswith(QUERIES_GUESSED)]
    assert named in note
    assert 'wrap each call in record_function("query"), or call profiler.step()' in note


@pytest.mark.parametrize(
    ("spans", "names"),
    [
        ([("a", 0, 5, 1), ("a", 5, 5, 1)], ["a"]),
        ([("a", 0, 5, 1), ("a", 4, 5, 2)], []),
        ([("a", 0, 9, 1), ("b", 1, 1, 2), ("a", 8, 5, 2)], []),
        ([("b", 0, 9, 1), ("a", 1, 2, 1), ("a", 4, 2, 1)], []),
        ([("b", 0, 9, 2), ("a", 1, 2, 1), ("a", 4, 2, 1)], ["a"]),
        ([("a", 0, 9, 1), ("a", 1, 2, 1), ("a", 10, 2, 1)], []),
    ],
    ids=["apart", "overlapping", "overlapping later", "nested", "beside", "in its own"],
)
def test_what_nests_or_overlaps_is_no_row_of_queries(
    spans: list[tuple[Any, ...]], names: list[str]
) -> None:
    frame = pl.DataFrame(spans, ["name", "start_ns", "duration_ns", "thread"], orient="row")
    assert repeated_names(frame) == names
    assert list(queries_of(frame, frame).names) == names


def test_an_operator_that_one_step_has_alone_moves_no_other_layer(tmp_path: Path) -> None:
    x = torch.ones(4, 4)

    def calls() -> None:
        for step in range(3):
            with record_function("query"):
                if step == 0:
                    torch.cos(x)
                torch.relu(torch.mm(torch.mm(x, x), x))

    layers = _traced(tmp_path / "t.json", calls).spans.filter(level=int(Level.FRAMEWORK))
    index = layers["attributes"].str.json_path_match("$.index").cast(int)
    told = list(zip(layers["query"], layers["name"], index, strict=True))
    products = [("aten::mm", 1), ("aten::mm", 2), ("aten::relu", 3)]
    assert told == [
        (0, "aten::cos", 0),
        *((query, *product) for query in range(3) for product in products),
    ]
