"""Models at level full: planned as a scheduler does, and what the survey's tables say of them."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.survey import full
from benchmarks.survey.bundles import frames_of
from benchmarks.survey.full_rows import (
    NUMBERED,
    counted_in,
    energy_row,
    numbered_row,
    optimal_verdict,
)
from benchmarks.survey.rows import run_at, system_row
from benchmarks.survey.subjects import net_named
from benchmarks.survey.tables import optimum
from schemas.agent import Announcement, CollectorFacts, Hardware, Runtime
from schemas.level import Level
from services.analyzer.frames.evaluation import Frames
from services.analyzer.tables.kernels_by_model import ANALYSIS as KERNELS_BY_MODEL
from tests.gpu.recordings import recorded_bundle

NET = net_named("fasterrcnn-resnet50-fpn")


def machine(*collected: Level) -> Announcement:
    """Return a machine with a GPU, and collectors for some levels."""
    facts = [CollectorFacts(name=each.name.lower(), levels=(each,)) for each in collected]
    return Announcement(
        agent="here",
        incarnation="one",
        hardware=Hardware(hostname="h", architecture="x86_64"),
        runtimes=(
            Runtime(
                framework="pytorch",
                version="2.11.0",
                devices=("cpu", "gpu"),
                deepest_level=Level.FRAMEWORK,
            ),
        ),
        collectors=tuple(facts),
    )


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("full")
    names = ("resnet50-32", "resnet50-32-counters", "bert-base-16")
    return [recorded_bundle(name, folder) for name in names]


@pytest.fixture(scope="module")
def resnet(paths: list[Path]) -> Frames:
    return frames_of(*paths[:2])


def test_each_level_has_its_run_and_counters_a_session_of_their_own() -> None:
    agent = machine(Level.LIBRARY, Level.SYSTEM, Level.HARDWARE)
    plain, apart = full.plan_of(NET, 4, agent, 77.0).plan.sessions
    levels = [run.level for run in plain.runs]
    assert levels == [Level.MODEL, Level.FRAMEWORK, Level.LIBRARY, Level.FULL]
    assert {run.run.rpartition("-")[0] for run in plain.runs} == {"b4-online"}
    assert (apart.variant, [run.level for run in apart.runs]) == ("counters", [Level.HARDWARE])


def test_ncu_has_no_more_time_than_is_left_and_the_model_its_options() -> None:
    subject = full.plan_of(NET, 1, machine(Level.HARDWARE), 77.0).plan.subject
    assert subject.collectors["ncu"] == {"timeout_s": 77.0}
    assert (subject.options, subject.device) == ({"call": "list"}, "gpu")


def test_a_bundle_with_counters_has_every_numbered_table(resnet: Frames, paths: list[Path]) -> None:
    row = numbered_row("resnet50", resnet)
    assert (row["complete"], row["counted"], row["dropped"]) == (True, 186, 0)
    assert row["unattributed"] <= 0.005
    plain = numbered_row("bert-base", frames_of(paths[2]))
    assert [number for number in NUMBERED if not plain[number]] == ["A12"]
    assert (plain["complete"], plain["counted"]) == (False, None)


def test_counters_of_every_kernel_are_a_calls(resnet: Frames, paths: list[Path]) -> None:
    found = counted_in(resnet)
    assert found is not None
    assert found["flops"] == pytest.approx(255.9e9, rel=1e-3)
    assert found["read_bytes"] == pytest.approx(5.4e9, rel=0.01)
    assert found["occupancy"] == pytest.approx(28.5, abs=0.1)
    assert counted_in(frames_of(paths[0])) is None


def test_the_gpu_s_share_is_of_the_untraced_predict_as_in_a15(resnet: Frames) -> None:
    (row,) = KERNELS_BY_MODEL.compute(resnet).records()
    assert system_row(resnet, None)["gpu_share"] == pytest.approx(row["gpu_share"], abs=0.02)


def test_one_batch_size_has_no_optimum(paths: list[Path]) -> None:
    assert "Fewer than two batch sizes" in optimal_verdict(paths[:1])


def test_the_optimum_is_of_the_model_with_most_batch_sizes() -> None:
    of_one = [
        {"model": "a", "batch": size, "model_ms": ms} for size, ms in ((1, 4), (2, 5), (4, 9.9))
    ]
    assert optimum([{"model": "b", "batch": 1, "model_ms": 1.0}, *of_one]) == (
        "\na, optimal batch by M: 2\n"
    )
    assert optimum(of_one[:1]) == ""


def test_what_was_sampled_is_read(paths: list[Path]) -> None:
    run = run_at(frames_of(paths[2]), Level.SYSTEM)
    assert run is not None
    power = run.series.filter(name="nvml.power")
    assert power.height > 1
    assert power["at_ns"].is_sorted()
    assert set(power["unit"]) == {"W"}
    assert 60 < power["value"].min() < power["value"].max() < 800  # type: ignore[operator]


def test_energy_is_the_analyzers(paths: list[Path]) -> None:
    row = energy_row("bert-base", paths[2])
    assert row is not None
    assert row["per_sample"] == pytest.approx(row["energy"] / row["answered"])
    assert energy_row("resnet50", paths[1]) is None


def test_blocks_and_lost_records_come_with_a_run(resnet: Frames) -> None:
    run = resnet.measured[0]
    assert [each["block"] for each in run.row.blocks] == [*range(len(run.row.blocks))]
    lossy = replace(run, row=replace(run.row, dropped_records=3))
    frames = replace(resnet, measured=(lossy, *resnet.measured[1:]))
    assert numbered_row("resnet50", frames)["dropped"] == 3
