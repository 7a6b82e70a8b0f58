"""Products of few bits: where the processor has them, and why not elsewhere."""

import importlib.util
from pathlib import Path

import pytest

from schemas.run import Ceiling
from services.agent.host.roofs import devices as roof_devices
from services.agent.machine.hardware import this_machine
from services.agent.machine.roofline import host_roof
from services.agent.machine.roofline.host_arithmetic import INSTRUCTIONS, SIZES, missing_reason
from services.agent.machine.roofline.host_roof import Work

X86 = "processor\t: 0\nflags\t\t: fpu avx2 avx512f {0}\nbogomips\t: 1\n"
ARM = "processor\t: 0\nFeatures\t: fp asimd {0}\n"


def facts(folder: Path, text: str) -> Path:
    """Write what the system tells of a processor."""
    path = folder / "cpuinfo"
    path.write_text(text)
    return path


@pytest.mark.parametrize("text", [X86, ARM], ids=["x86", "Arm"])
@pytest.mark.parametrize("precision", INSTRUCTIONS)
def test_without_instructions_there_is_a_reason(tmp_path: Path, text: str, precision: str) -> None:
    told = missing_reason(precision, facts(tmp_path, text.format("")))
    assert told.startswith(f"this processor can't multiply {precision}: it has none of ")
    named = facts(tmp_path, text.format(INSTRUCTIONS[precision][-1]))
    assert not missing_reason(precision, named).startswith("this processor")


def test_a_system_that_tells_nothing_has_none(tmp_path: Path) -> None:
    assert "can't multiply int8" in missing_reason("int8", tmp_path / "missing")


def test_without_pytorch_there_is_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = facts(tmp_path, X86.format("avx512_vnni"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert missing_reason("int8", path) == "PyTorch, which would measure it, is not installed"


@pytest.fixture
def any_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this one that multiplies everything, and each product nothing at all."""

    def quick(_: str, size: int, threads: int) -> list[Work]:
        return [lambda: sum(range(100 if size == SIZES[0] else 10_000))] * threads

    known = Ceiling(measured=1.0)
    monkeypatch.setattr(host_roof, "product_peak", lambda *_: known)
    monkeypatch.setattr(host_roof, "copy_bandwidths", lambda counts: dict.fromkeys(counts, known))
    monkeypatch.setattr(host_roof, "missing_reason", lambda _: "")
    monkeypatch.setattr(host_roof, "products", quick)


@pytest.mark.usefixtures("any_processor")
def test_each_precision_has_a_peak_by_threads() -> None:
    found = host_roof.measure_host(2, low_precision=True)
    assert found.peaks.keys() == {"float32", "float64", *INSTRUCTIONS}
    assert all([*each] == [1, 2] for each in found.peaks.values())
    assert found.missing == {}
    assert found.for_run("bfloat16", 2).ceilings["peak_flops"] == found.peaks["bfloat16"][2]


@pytest.mark.usefixtures("any_processor")
def test_of_two_sizes_the_faster_one_counts() -> None:
    found = host_roof.measure_host(1, low_precision=True).peaks["int8"][1]
    assert found.method == "int8 products of 512 x 512 on 1 threads by PyTorch, best of 6"


@pytest.mark.usefixtures("any_processor")
def test_a_product_that_fails_is_lacking_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(precision: str, *_: int) -> list[Work]:
        raise RuntimeError(f"no kernel\nof {precision}")

    monkeypatch.setattr(host_roof, "products", broken)
    found = host_roof.measure_host(1, low_precision=True)
    picked = found.for_run("bfloat16", 1)
    assert [*found.peaks] == ["float32", "float64"]
    assert "peak_flops" not in picked.ceilings
    assert picked.note == (
        "no roof: the peak of bfloat16 is not known here "
        "(PyTorch could not multiply them: no kernel)"
    )


def test_another_pytorch_is_another_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"numpy": "2.0", "torch": "2.9"}
    monkeypatch.setattr(roof_devices, "package_version", lambda name: known[name])
    machine = this_machine()
    before = roof_devices.host_device(machine)
    known["torch"] = ""
    assert roof_devices.host_device(machine).file != before.file
    assert before.library.startswith("numpy 2.0, torch 2.9, ")
