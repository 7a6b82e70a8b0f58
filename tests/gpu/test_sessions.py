"""An agent's sessions on this machine's GPU, each in a worker process, into bundles.

`MLSCOPE_GPU_BUNDLES` names a folder that keeps them: `make test-gpu BUNDLES=FOLDER` imports them
into a cluster anywhere, and analyses them. `MLSCOPE_GPU_ONLY` names some, with commas between.
"""

import os
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from cli.offline.bundle import read  # noqa: E402
from schemas.batch import SpanKind  # noqa: E402
from schemas.level import Level  # noqa: E402
from schemas.run import RunCompleted  # noqa: E402
from services.agent.machine.hardware import package_version  # noqa: E402
from tests.gpu.contents import copied_within, counts_of, held_within, told_of  # noqa: E402
from tests.gpu.plans import WISHES, Wish, measure  # noqa: E402

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="NO GPU: PyTorch sees none"),
    pytest.mark.timeout(300),
]

NAMES = os.environ.get("MLSCOPE_GPU_ONLY", ",".join(WISHES)).split(",")
NEEDS = {"jax": ("jax", "cupti"), "onnxruntime": ("cupti",), "tensorflow": ("tensorflow", "cupti")}
EAGER = ("resnet50-full", "serialised", "library", "detector", "vit-b-16")
Measured = tuple[Path, dict[str, RunCompleted]]


@pytest.fixture(scope="module", params=NAMES)
def wish(request: pytest.FixtureRequest) -> Wish:
    found = WISHES[str(request.param)]
    for module in NEEDS.get(found.name, ()):
        if find_spec(module) is None:
            pytest.skip(f"{module} is not installed on this machine")
    if found.framework == "onnxruntime" and not package_version("onnxruntime-gpu"):
        pytest.skip("onnxruntime-gpu is not installed on this machine")
    return found


@pytest.fixture(scope="module")
def roofs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where the GPU's roof is kept from plan to plan."""
    return tmp_path_factory.mktemp("kept") / "roofs"


@pytest.fixture(scope="module")
def measured(wish: Wish, roofs: Path, tmp_path_factory: pytest.TempPathFactory) -> Measured:
    kept = os.environ.get("MLSCOPE_GPU_BUNDLES")
    folder = Path(kept) if kept else tmp_path_factory.mktemp("bundles")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{wish.name}.bundle"
    return path, measure(wish, path, roofs)


def deepest(wish: Wish) -> str:
    """Return the name of a wish's plain run that has kernels."""
    return wish.run(wish.level)


def plain(wish: Wish) -> None:
    """Skip a wish that has no plain runs."""
    if wish.scenario == "cold":
        pytest.skip("cold starts alone were asked for")


def test_every_run_is_as_deep_as_asked_and_loses_nothing(wish: Wish, measured: Measured) -> None:
    path, outcomes = measured
    levels = {run.run: run.level for one in read(path).plan.sessions for run in one.runs}
    for run, outcome in outcomes.items():
        print(wish.name, run, outcome.level.name, outcome.level_note, *outcome.caveats, sep="\n  ")  # noqa: T201
        wanted = Level.SYSTEM if levels[run] == Level.FULL else levels[run]
        assert outcome.level == wanted
        assert outcome.tally.dropped_records == outcome.tally.dropped_batches == 0


def test_system_runs_have_kernels_and_their_calls(wish: Wish, measured: Measured) -> None:
    plain(wish)
    found = counts_of(measured[0], deepest(wish))
    assert found[Level.SYSTEM, SpanKind.KERNEL] > 0
    assert found[Level.SYSTEM, SpanKind.LAUNCH] > 0
    assert found[Level.FRAMEWORK, SpanKind.HOST] > 0


def test_library_runs_have_the_libraries_calls(wish: Wish, measured: Measured) -> None:
    path, outcomes = measured
    run = wish.run(Level.LIBRARY)
    if run not in outcomes:
        pytest.skip("no run at level library was asked for")
    assert counts_of(path, run)[Level.LIBRARY, SpanKind.HOST] > 0


def test_the_gpu_is_sampled_beside_runs(wish: Wish, measured: Measured) -> None:
    plain(wish)
    power = [each.value for each in told_of(measured[0], deepest(wish), "nvml.power")]
    energy = [each.value for each in told_of(measured[0], wish.run(Level.MODEL), "energy.gpu")]
    print(wish.name, len(power), power[:3], len(energy), energy)  # noqa: T201
    assert len(power) >= 2
    assert all(each > 0 for each in power)
    assert len(energy) == 2 * wish.blocks
    # Blocks shorter than a step of the counter see none of it.
    assert wish.name != "serialised" or energy[-1] > energy[0] >= 0.0


def test_layers_say_what_they_allocate(wish: Wish, measured: Measured) -> None:
    if wish.name not in EAGER:
        pytest.skip("only PyTorch's layers without graphs and compilers are measured")
    layers = told_of(measured[0], deepest(wish), level=Level.FRAMEWORK)
    kinds = Counter(each.attributes.get("memory_kind") for each in layers)
    print(wish.name, kinds)  # noqa: T201
    assert kinds["measured"] > 0.9 * kinds.total()
    assert sum(each.attributes.get("memory_bytes") or 0 for each in layers) > 0


def test_the_roof_of_the_gpu_is_announced(wish: Wish, measured: Measured) -> None:
    (first, *_) = read(measured[0]).announcement.hardware.accelerators
    for peak in (first.peak_flops["float32"], first.memory_bandwidth):
        assert peak is not None
        assert (peak.measured or 0.0) > 0.0


def test_counters_are_read_of_every_kernel(wish: Wish, measured: Measured) -> None:
    path, outcomes = measured
    run = wish.run(Level.HARDWARE, "counters")
    if wish.level < Level.HARDWARE:
        pytest.skip("no counters were asked for")
    kernels = told_of(path, run, level=Level.HARDWARE, kind=SpanKind.KERNEL)
    print(wish.name, len(kernels), outcomes[run].caveats)  # noqa: T201
    assert len(kernels) > 100
    assert all("dram_read_bytes" in each.attributes for each in kernels)
    assert sum(each.attributes.get("flops", 0) for each in kernels) > 1e9


def test_a_serialised_layer_outlasts_its_kernels(wish: Wish, measured: Measured) -> None:
    path, outcomes = measured
    if not wish.serialised:
        pytest.skip("nothing serialised was asked for")
    (plainly, blocking) = (wish.run(wish.level, variant) for variant in ("", "serialised"))
    shares = {run: held_within(path, run) for run in (plainly, blocking)}
    print(shares, outcomes[blocking].caveats)  # noqa: T201
    assert shares[blocking] > 0.99 > shares[plainly]


def test_an_opening_copies_the_weights_of_each_layer(wish: Wish, measured: Measured) -> None:
    if wish.scenario != "cold":
        pytest.skip("no cold start was asked for")
    path, outcomes = measured
    firsts = [run for run in outcomes if run.endswith("-first")]
    warms = [run for run in outcomes if run.endswith("-warm")]
    assert len(firsts) == len(warms) == 3 * wish.queries
    deep = [run for run in firsts if "-system-" in run]
    for run in deep:
        copies = copied_within(path, run)
        print(run, len(copies), dict(copies.most_common(3)))  # noqa: T201
        assert len(copies) == 41  # ResNet-18's convolutions, norms and classifier
        assert all(nanoseconds > 0 for nanoseconds in copies.values())
