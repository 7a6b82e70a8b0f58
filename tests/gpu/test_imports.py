"""Bundles of agents on GPUs, imported through a local cluster and analysed.

`BUNDLES` names a folder with what `make test-gpu` kept on a machine with a GPU. Not part of any
other run: `make test-gpu BUNDLES=FOLDER`.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("psycopg")

from tests.flow.clusters import Cluster, running

FOLDER = os.environ.get("BUNDLES", "")
PATHS = sorted(Path(FOLDER).glob("*.bundle")) if FOLDER else []
NUMBERED = {f"A{number}" for number in range(1, 16)}
COUNTED = {"A12"}
"""What is of hardware counters alone: A9 and A14 go by layers' shapes where a bundle has none."""
NO_MEMORY = COUNTED | {"A4", "A7", "A9", "A14"}
NO_LAYERS = NO_MEMORY | {"A2", "A3", "A5", "A6", "A13"}
EMPTY = {"compiled": NO_MEMORY, "compiled-graph": NO_MEMORY, "graph": NO_LAYERS}
"""Which may be empty, by bundle: compiled layers say no memory and no FLOP, a graph has none."""

pytestmark = [
    pytest.mark.skipif(not PATHS, reason="no BUNDLES: name a folder with *.bundle"),
    pytest.mark.timeout(600),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with running({}) as lent:
        yield lent


@pytest.mark.parametrize("path", PATHS, ids=lambda path: str(path.stem))
def test_a_bundle_becomes_an_evaluation_with_every_numbered_table(
    cluster: Cluster, path: Path
) -> None:
    evaluation = cluster.mlscope("import", str(path)).strip()
    with cluster.client() as client:
        status = client.evaluation(evaluation).status()
        found = [each.table for each in client.tables(evaluation).values()]
    tables = [each for each in found if each.id in NUMBERED]
    assert status.state == "analyzed"
    assert {each.id for each in tables} == NUMBERED
    print(f"\n== {path.name} ({path.stat().st_size} bytes): {evaluation}, {status.state}")  # noqa: T201
    for each in sorted(tables, key=lambda one: int(one.id[1:])):
        print(f"{each.id:4}{len(each.rows):6} rows  {each.verdict}")  # noqa: T201
    empty = {each.id for each in tables if not each.rows}
    assert empty <= (set() if "full" in path.stem else EMPTY.get(path.stem, COUNTED))
