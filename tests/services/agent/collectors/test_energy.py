"""Energy by counters: read around a block, of the right device, over a wrap, from a fake sysfs."""

from collections.abc import Callable
from pathlib import Path

import pytest

from schemas.batch import SpanKind
from schemas.level import Level
from services.agent.collectors import (
    Collected,
    Collector,
    CollectorRequest,
    CollectorUnavailable,
    energy,
)
from services.agent.collectors.nvml import collector as nvml
from services.agent.predictors import Opened


class Driver:
    """A driver whose energy, in mJ, grows with each read; all else it refuses."""

    NVMLError = KeyError

    def __init__(self) -> None:
        self._read = 0

    def __getattr__(self, name: str) -> Callable[..., int]:
        """Return what answers, or what refuses."""
        known = {
            "nvmlDeviceGetHandleByIndex": lambda number: number,
            "nvmlDeviceGetTotalEnergyConsumption": self._energy,
        }
        return known.get(name, self._refused)

    def _energy(self, number: int) -> int:
        self._read += 1
        return 1000 * self._read * (number + 1)

    def _refused(self, *_: object) -> int:
        raise KeyError


@pytest.fixture
def powercap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Lend two zones of a package, one of memory and one of cores, and no GPU."""
    names = {"0": "package-0", "0:0": "core", "0:1": "dram", "1": "package-1"}
    for number, name in names.items():
        zone = tmp_path / f"intel-rapl:{number}"
        zone.mkdir()
        (zone / "name").write_text(f"{name}\n")
        (zone / "max_energy_range_uj").write_text("10000000\n")
        (zone / "energy_uj").write_text("4000000\n")
    monkeypatch.setattr(energy, "POWERCAP", tmp_path)
    monkeypatch.setattr(nvml, "devices", list)
    return tmp_path


def request(device: str = "cpu") -> CollectorRequest:
    opened = Opened("pytorch", "2", (), (), device, "", "float32", 1, {})
    return CollectorRequest(opened, Level.MODEL)


def values(collected: Collected) -> list[tuple[str, object, object]]:
    told = [span.attributes or {} for span in collected.spans]
    named = zip(collected.spans, told, strict=True)
    return [(span.name, each["device"], round(each["value"], 6)) for span, each in named]


def burn(powercap: Path, zone: str, micro_joules: int) -> None:
    (powercap / f"intel-rapl:{zone}" / "energy_uj").write_text(str(micro_joules))


def test_a_block_leaves_what_packages_and_memory_took(powercap: Path) -> None:
    collector: Collector = energy.open_collector(request())
    collector.begin()
    burn(powercap, "0", 6_500_000)
    burn(powercap, "0:0", 9_000_000)
    burn(powercap, "0:1", 4_250_000)
    collected = collector.end()
    assert values(collected) == [
        ("energy.package", 0, 0.0), ("energy.package", 0, 2.5),
        ("energy.dram", 0, 0.0), ("energy.dram", 0, 0.25),
        ("energy.package", 1, 0.0), ("energy.package", 1, 0.0),
    ]  # fmt: skip
    assert {span.kind for span in collected.spans} == {SpanKind.SAMPLE}
    begun, ended = collected.spans[:2]
    assert begun.start_ns < ended.start_ns


def test_a_counter_that_began_anew_has_no_negative_energy(powercap: Path) -> None:
    collector = energy.open_collector(request())
    collector.begin()
    burn(powercap, "1", 1_000_000)
    assert ("energy.package", 1, 7.0) in values(collector.end())


def test_what_may_not_be_read_is_left_out(powercap: Path) -> None:
    for zone in ("0", "0:0", "0:1"):
        (powercap / f"intel-rapl:{zone}" / "energy_uj").unlink()
    assert {(each.series, each.device) for each in energy.host_counters(powercap)} == {
        ("energy.package", 1)
    }
    (powercap / "intel-rapl:1" / "energy_uj").write_text("")
    found = energy.availability()
    assert (found.levels, "the host has no readable energy counter" in found.reason) == ((), True)
    with pytest.raises(CollectorUnavailable, match="no energy counter"):
        energy.open_collector(request())


@pytest.fixture
def _two_gpus(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    driver = Driver()
    monkeypatch.setattr(energy, "POWERCAP", tmp_path)
    monkeypatch.setattr(energy, "find_spec", lambda _: object())
    monkeypatch.setattr(nvml, "devices", lambda: [nvml.Device(driver, n) for n in (0, 1)])
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")


@pytest.mark.usefixtures("_two_gpus")
def test_the_run_s_own_gpu_is_read_by_its_framework_s_number() -> None:
    collector = energy.open_collector(request("gpu"))
    collector.begin()
    assert values(collector.end()) == [("energy.gpu", 0, 0.0), ("energy.gpu", 0, 2.0)]


@pytest.mark.usefixtures("_two_gpus")
def test_a_run_on_the_host_reads_no_gpu() -> None:
    with pytest.raises(CollectorUnavailable):
        energy.open_collector(request("cpu"))


def test_it_works_from_level_application_on(powercap: Path) -> None:
    assert powercap.exists()
    assert energy.availability().levels == (Level.APPLICATION,)
    assert energy.open_collector(request()).level == Level.APPLICATION
