"""Bundles of agents on GPUs, imported through a local cluster and analysed.

`BUNDLES` names a folder with what `make test-gpu` kept on a machine with a GPU. Not part of any
other run: `make test-gpu BUNDLES=FOLDER`.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("psycopg")

from schemas.analysis import Table
from tests.flow.clusters import Cluster, running
from tests.gpu.tables import NUMBERED, ROOFED, empty_in, rows_of

FOLDER = os.environ.get("BUNDLES", "")
PATHS = sorted(Path(FOLDER).glob("*.bundle")) if FOLDER else []
COUNTED = {"A12"}
"""What is of hardware counters alone: A9 and A14 go by layers' shapes where a bundle has none."""
NO_MEMORY = COUNTED | {"A4", "A7", "A9", "A14"}
NO_LAYERS = NO_MEMORY | {"A2", "A3", "A5", "A6", "A13"}
EMPTY = {
    **dict.fromkeys(("resnet50-full", "detector", "vit-b-16", "onnxruntime"), frozenset[str]()),
    "compiled": NO_MEMORY,
    "compiled-graph": NO_MEMORY,
    "graph": NO_LAYERS,
    "cold": set(NUMBERED),
}
"""Which may be empty, by bundle: compiled layers say no memory and no FLOP, a graph has none; cold
starts have tables of their own."""

pytestmark = [
    pytest.mark.skipif(not PATHS, reason="no BUNDLES: name a folder with *.bundle"),
    pytest.mark.timeout(600),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with running(has_all_models=True) as lent:
        yield lent


@pytest.fixture(scope="module", params=PATHS, ids=lambda path: str(path.stem))
def path(request: pytest.FixtureRequest) -> Path:
    return Path(request.param)


@pytest.fixture(scope="module")
def tables(cluster: Cluster, path: Path) -> list[Table]:
    """Import a bundle; return its evaluation's tables, each told in a line."""
    evaluation = cluster.mlscope("import", str(path)).strip()
    with cluster.client() as client:
        status = client.evaluation(evaluation).status()
        found = [each.table for each in client.tables(evaluation).values()]
    print(f"\n== {path.name} ({path.stat().st_size} bytes): {evaluation}, {status.state}")  # noqa: T201
    numbered = [each for name in NUMBERED for each in found if each.id == name]
    for each in (*numbered, *(one for one in found if not one.id)):
        print(f"{each.id or each.name:18}{len(each.rows):6} rows  {each.verdict}")  # noqa: T201
    assert status.state == "analyzed"
    return found


def test_every_numbered_table_that_can_be_has_rows(path: Path, tables: list[Table]) -> None:
    assert {each.id for each in tables if each.id} == set(NUMBERED)
    assert empty_in(tables) <= EMPTY.get(path.stem, COUNTED)


def test_the_roof_is_beside_what_is_held_to_it(path: Path, tables: list[Table]) -> None:
    rows = [row for name in ROOFED for row in rows_of(tables, name)]
    if not rows:
        pytest.skip("has no such tables")
    worked = [row for row in rows if row["intensity"] is not None]
    assert all(row["roof"] is not None and row["ridge"] is not None for row in worked)


def test_conditions_and_energy_have_rows(path: Path, tables: list[Table]) -> None:
    assert rows_of(tables, "device_conditions")
    # Energy is of inferences: cold starts have none.
    assert bool(rows_of(tables, "energy")) is (path.stem != "cold")


def test_cold_layers_have_copies(path: Path, tables: list[Table]) -> None:
    rows = [row for row in rows_of(tables, "cold_layers") if row["weight_bytes"]]
    assert bool(rows) is (path.stem == "cold")
    assert all(row["copy"] > 0 for row in rows)


def test_serialised_layers_last_longer_than_their_kernels(path: Path, tables: list[Table]) -> None:
    rows = [row for row in rows_of(tables, "A13") if row["variant"] == "serialised"]
    assert bool(rows) is (path.stem == "serialised")
    assert all(row["non_gpu"] > 0 for row in rows if row["kernels"])
