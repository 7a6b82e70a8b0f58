"""An agent's sessions on this machine's GPU, each in a worker process, into bundles.

`MLSCOPE_GPU_BUNDLES` names a folder that keeps them: `make test-gpu BUNDLES=FOLDER` imports them
into a cluster anywhere, and analyses them. `MLSCOPE_GPU_ONLY` names some, with commas between.
"""

import os
from collections import Counter
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from cli.commands.bundle import read  # noqa: E402
from mlscope.tracing.batches import columns_of  # noqa: E402
from schemas.batch import SpanKind, TraceCaptured  # noqa: E402
from schemas.level import Level  # noqa: E402
from schemas.run import RunCompleted  # noqa: E402
from tests.gpu.plans import WISHES, measure  # noqa: E402

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="NO GPU: PyTorch sees none"),
    pytest.mark.timeout(300),
]

NAMES = os.environ.get("MLSCOPE_GPU_ONLY", ",".join(WISHES)).split(",")
Measured = tuple[Path, dict[str, RunCompleted]]


@pytest.fixture(scope="module", params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def measured(name: str, tmp_path_factory: pytest.TempPathFactory) -> Measured:
    if name == "jax":
        pytest.importorskip("cupti")
        pytest.importorskip("jax")
    kept = os.environ.get("MLSCOPE_GPU_BUNDLES")
    folder = Path(kept) if kept else tmp_path_factory.mktemp("bundles")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.bundle"
    return path, measure(WISHES[name], path)


def kinds_of(path: Path, run: str) -> Counter[tuple[int, int]]:
    """Return how many spans a run has by level and kind."""
    found = Counter[tuple[int, int]]()
    for fact in read(path).facts(run):
        if isinstance(fact, TraceCaptured):
            columns = columns_of(fact)
            kinds = list(map(int, columns.get("kind", ()))) or [0] * fact.count
            found.update(zip(map(int, columns["level"]), kinds, strict=True))
    return found


def test_every_run_is_as_deep_as_asked_and_loses_nothing(name: str, measured: Measured) -> None:
    _, outcomes = measured
    for run, outcome in outcomes.items():
        print(name, run, outcome.level.name, outcome.level_note, *outcome.caveats, sep="\n  ")  # noqa: T201
        assert outcome.level.name.lower() == run.rpartition("-")[2]
        assert outcome.tally.dropped_records == outcome.tally.dropped_batches == 0


def test_system_runs_have_kernels_and_their_calls(name: str, measured: Measured) -> None:
    path, _ = measured
    found = kinds_of(path, "plain-system")
    assert found[int(Level.SYSTEM), int(SpanKind.KERNEL)] > 0
    assert found[int(Level.SYSTEM), int(SpanKind.LAUNCH)] > 0
    assert found[int(Level.FRAMEWORK), int(SpanKind.HOST)] > 0


def test_library_runs_have_the_libraries_calls(name: str, measured: Measured) -> None:
    path, outcomes = measured
    if "plain-library" not in outcomes:
        pytest.skip("no run at level library was asked for")
    assert kinds_of(path, "plain-library")[int(Level.LIBRARY), int(SpanKind.HOST)] > 0
