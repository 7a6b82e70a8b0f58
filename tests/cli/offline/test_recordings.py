"""Recordings that ship: small, and whole, so that an import ends without waiting for batches."""

from collections import defaultdict
from pathlib import Path

import pytest

from cli.offline.bundle import read
from cli.offline.recordings import FOLDER, RECORDINGS
from schemas.batch import OutputsPredicted, QueriesAnswered, TraceCaptured
from schemas.level import Level
from tests.gpu.recordings import bundle_names, recorded_bundle


@pytest.mark.parametrize("name", bundle_names())
def test_no_number_of_a_batch_is_missing(name: str, tmp_path: Path) -> None:
    bundle = read(recorded_bundle(name, tmp_path))
    for run in bundle.positions:
        numbers: dict[str, list[int]] = defaultdict(list)
        for fact in bundle.facts(run):
            if isinstance(fact, TraceCaptured | QueriesAnswered | OutputsPredicted):
                numbers[fact.schema_name()].append(fact.sequence)
        for kind, found in numbers.items():
            assert found == list(range(len(found))), f"{kind} of {run}"


def test_the_shipped_recordings_are_small() -> None:
    files = {path.name: path.stat().st_size for path in FOLDER.iterdir()}
    assert set(files) == {f"{name}.bundle.gz" for name in RECORDINGS}
    assert sum(files.values()) < 1_000_000


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_shipped_recording_is_told_from_own_measurements(name: str, tmp_path: Path) -> None:
    bundle = read(recorded_bundle(name, tmp_path))
    model = bundle.plan.subject.model
    assert model.name == f"recorded-{name.removeprefix('h200-')}"
    assert bundle.agent == "recorded-h200"
    levels = {run.level for session in bundle.plan.sessions for run in session.runs}
    assert max(levels) == Level.SYSTEM, "kernels are in it"
