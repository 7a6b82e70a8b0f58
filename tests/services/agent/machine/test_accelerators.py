"""Accelerators of each vendor, by stand-ins for the documented interfaces of their libraries."""

import sys
from collections.abc import Iterator, Mapping
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from schemas.agent import Accelerator
from services.agent.machine import accelerators as module
from services.agent.machine.accelerators import (
    accelerators,
    amd_accelerators,
    apple_accelerators,
    intel_accelerators,
    nvidia_accelerators,
)

GIB = 1 << 30
LIBRARIES = ("pynvml", "amdsmi", "dpctl", "Metal")


class SmiError(Exception):
    """amdsmi.AmdSmiException."""


def install(monkeypatch: pytest.MonkeyPatch, name: str, **members: Any) -> None:
    """Have an import of `name` find a module with these members, and of other vendors' nothing."""
    for library in LIBRARIES:
        monkeypatch.setitem(sys.modules, library, None)
    library_module = ModuleType(name)
    vars(library_module).update(members)
    monkeypatch.setitem(sys.modules, name, library_module)


def amdsmi(calls: list[str], facts: Mapping[str, Any], **members: Any) -> dict[str, Any]:
    """Return what the module amdsmi has, on a machine with one MI300X."""
    return {
        "AmdSmiException": SmiError,
        "AmdSmiMemoryType": SimpleNamespace(VRAM=0),
        "amdsmi_init": lambda: calls.append("init"),
        "amdsmi_shut_down": lambda: calls.append("shut_down"),
        "amdsmi_get_processor_handles": lambda: ["handle"],
        "amdsmi_get_gpu_asic_info": lambda _: facts,
        "amdsmi_get_gpu_memory_total": lambda _, kind: 192 * GIB if kind == 0 else 0,
        "amdsmi_get_gpu_driver_info": lambda _: {"driver_name": "amdgpu", "driver_version": "6.12"},
        "amdsmi_get_gpu_device_uuid": lambda _: "11ff74a1-0000-1000-80ff",
        **members,
    }


MI300X = {"market_name": "AMD Instinct MI300X", "vendor_id": 0x1002, "num_compute_units": 304}


def test_amds_are_announced_by_amdsmi(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    install(monkeypatch, "amdsmi", **amdsmi(calls, MI300X))
    assert accelerators() == (
        Accelerator(
            name="AMD Instinct MI300X",
            vendor="amd",
            memory_bytes=192 * GIB,
            driver="6.12",
            uuid="11ff74a1-0000-1000-80ff",
            multiprocessors=304,
        ),
    )
    assert calls == ["init", "shut_down"]


def test_what_amdsmi_does_not_know_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = {"market_name": "N/A", "num_compute_units": "N/A"}
    driver = {"amdsmi_get_gpu_driver_info": lambda _: {"driver_version": "N/A"}}
    install(monkeypatch, "amdsmi", **amdsmi([], facts, **driver))
    (gpu,) = amd_accelerators()
    assert (gpu.name, gpu.driver, gpu.multiprocessors) == ("AMD GPU", "", 0)


def refuse(*_: object) -> Any:
    """Fail as amdsmi does."""
    raise SmiError("AMDSMI_STATUS_DRIVER_NOT_LOADED")


@pytest.mark.parametrize("call", ["amdsmi_init", "amdsmi_get_gpu_asic_info"])
def test_without_amds_driver_there_is_none(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    install(monkeypatch, "amdsmi", **amdsmi(calls, MI300X, **{call: refuse}))
    assert list(amd_accelerators()) == []
    assert calls == ([] if call == "amdsmi_init" else ["init", "shut_down"])


def test_intels_are_announced_by_dpctl(monkeypatch: pytest.MonkeyPatch) -> None:
    device = SimpleNamespace(
        name="Intel(R) Data Center GPU Max 1550",
        driver_version="1.6.33578",
        global_mem_size=64 * GIB,
        max_compute_units=512,
    )
    selections: list[Mapping[str, str]] = []

    def get_devices(**selection: str) -> list[Any]:
        selections.append(selection)
        return [device]

    install(monkeypatch, "dpctl", get_devices=get_devices)
    (gpu,) = intel_accelerators()
    assert (gpu.vendor, gpu.name, gpu.memory_bytes) == ("intel", device.name, 64 * GIB)
    assert (gpu.driver, gpu.multiprocessors) == ("1.6.33578", 512)
    assert selections == [{"backend": "level_zero", "device_type": "gpu"}]


def test_apples_are_announced_by_metal(monkeypatch: pytest.MonkeyPatch) -> None:
    device = SimpleNamespace(
        name=lambda: "Apple M2 Max",
        recommendedMaxWorkingSetSize=lambda: 48 * GIB,
        hasUnifiedMemory=lambda: True,
    )
    install(monkeypatch, "Metal", MTLCopyAllDevices=lambda: [device])
    (gpu,) = apple_accelerators()
    assert (gpu.vendor, gpu.name) == ("apple", "Apple M2 Max")
    assert (gpu.memory_bytes, gpu.interconnect) == (48 * GIB, "unified")


def test_without_libraries_there_is_no_accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    for library in LIBRARIES:
        monkeypatch.setitem(sys.modules, library, None)
    assert accelerators() == ()
    assert list(nvidia_accelerators()) == []


def test_a_library_that_cannot_be_loaded_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> Any:
        raise KeyError(f"lib{name}.so")

    monkeypatch.setattr(module, "import_module", broken)
    assert list(amd_accelerators()) == []


@pytest.mark.parametrize("error", [RuntimeError, KeyError, OSError])
@pytest.mark.parametrize("place", range(4))
def test_a_maker_s_library_that_fails_hides_no_other_maker_s_gpu(
    place: int,
    error: type[Exception],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken() -> Iterator[Accelerator]:
        yield Accelerator(name="first")
        raise error("Level Zero")

    searches = [lambda: iter((Accelerator(name="own"),))] * 4
    searches[place] = broken
    monkeypatch.setattr(module, "SEARCHES", searches)
    module._warn_once.cache_clear()
    names = [[gpu.name for gpu in accelerators()] for _ in range(2)]
    assert names[0] == names[1] == ["own"] * place + ["first"] + ["own"] * (3 - place)
    assert [record.message for record in caplog.records] == ["a search for accelerators failed"]


def test_an_intel_driver_that_fails_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def get_devices(**_: str) -> Any:
        raise RuntimeError("level_zero: no such backend")

    install(monkeypatch, "dpctl", get_devices=get_devices)
    module._warn_once.cache_clear()
    assert accelerators() == ()
    assert "level_zero" in vars(caplog.records[0])["cause"]
