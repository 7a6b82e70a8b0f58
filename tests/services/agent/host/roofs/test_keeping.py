"""Roofs as an agent has them: the best of some starts, apart from workers, one at a time."""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mlscope.assets.locks import try_lock
from schemas.agent import Accelerator, Announcement
from schemas.plan import WorkOrder
from schemas.run import Ceiling
from services.agent.host.announcing import announcement
from services.agent.host.execution import Execution
from services.agent.host.process import WorkerProcess
from services.agent.host.publishing.outcome_publisher import OutcomePublisher
from services.agent.host.roofs import devices as roof_devices
from services.agent.host.roofs import keeping
from services.agent.host.roofs import stored as kept_roofs
from services.agent.host.roofs.devices import MeasuredDevice, gpu_number
from services.agent.host.roofs.keeping import PAUSE_S, DeviceRoofs
from services.agent.host.roofs.process import device_is_quiet, measure_in_process
from services.agent.host.roofs.stored import load_kept, save_kept
from services.agent.machine.noise import usable_core_numbers
from services.agent.machine.roofline.ceilings import NO_ROOF, Roof
from services.agent.machine.roofline.measurements import APART_NS, MEASUREMENTS, KeptRoof
from tests.services.agent.builders import MANIFESTS, Kept, a_run, a_subject, an_order, limits

ONE = {0: Ceiling(measured=1.0, method="told", measurements=1, measured_ns=time.time_ns())}
FOUND = Roof("cpu", "C", {"float32": ONE}, ONE)
ON_GPU = Roof("gpu", "NVIDIA H200", {"bfloat16": ONE}, ONE)
REFUSED = Roof("cpu", note="the host's roof could not be measured: no memory: 140 MB")
LAYERS = an_order(runs=(a_run(level="framework"),))
HOST = MeasuredDevice("cpu", "C", "C")
H200 = Accelerator(name="NVIDIA H200", uuid="GPU-aa", driver="580.1")
OTHER = Accelerator(name="NVIDIA L4", uuid="GPU-bb", driver="580.1")


LOUD = replace(FOUND, disturbance="other processes used 50% of the cores")


class Machine:
    """Stands for the clocks, and for what others do on the machine."""

    def __init__(self) -> None:
        self.now_s, self.is_quiet, self.checks = 1e9, True, 0

    def monotonic(self) -> float:
        """Return the time."""
        return self.now_s

    def time_ns(self) -> int:
        """Return the time."""
        return int(self.now_s * 1e9)

    async def device_is_quiet(self, _: MeasuredDevice) -> bool:
        """Return whether it is quiet."""
        self.checks += 1
        return self.is_quiet


class Counted:
    """Stands for the process that measures; counts how often, and how many at once."""

    def __init__(self, *answers: Roof) -> None:
        self.answers, self.commands = list(answers), list[Sequence[str]]()
        self.running = self.most = 0

    async def measure(self, _: MeasuredDevice, command: Sequence[str]) -> Roof:
        """Return the next answer."""
        self.commands.append(command)
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(0.01)
        self.running -= 1
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    simulated = Machine()
    for name in ("monotonic", "time_ns", "device_is_quiet"):
        monkeypatch.setattr(keeping, name, getattr(simulated, name))
    return simulated


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    found = Counted(FOUND)
    monkeypatch.setattr(keeping, "measure_in_process", found.measure)
    return found


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch, counted: Counted) -> Counted:
    monkeypatch.setattr(roof_devices, "nvidia_accelerators", lambda: iter((H200, OTHER)))
    monkeypatch.setattr(roof_devices, "installed_gpu_library", lambda: "torch 2.11")
    monkeypatch.setattr(kept_roofs, "installed_gpu_library", lambda: "torch 2.11")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    counted.answers = [ON_GPU]
    return counted


def measured_at(now_s: float, measured: float, spread: float = 0.01) -> Roof:
    """Return what is measured at a time."""
    ceiling = Ceiling(
        measured=measured,
        method="told",
        uncertainty=spread,
        measurements=1,
        measured_ns=int(now_s * 1e9),
        conditions={"others": 0.02},
    )
    return Roof("cpu", "C", {"float32": {0: ceiling}}, {0: ceiling})


def roofs_in(folder: Path) -> DeviceRoofs:
    return DeviceRoofs(folder / "roofs", folder / "lock")


def on(device: str, level: str = "framework") -> WorkOrder:
    return an_order(a_subject(device=device), (a_run(level=level),))


async def test_sessions_and_starts_of_agents_share_it(tmp_path: Path, counted: Counted) -> None:
    first, second = roofs_in(tmp_path), roofs_in(tmp_path)
    other = an_order(runs=(a_run(level="system"),), session="s1")
    found = [
        await first.roof_for_order(LAYERS),
        await first.roof_for_order(other),
        await second.roof_for_order(LAYERS),
    ]
    assert [each.peaks["float32"] for each in found] == [ONE] * 3
    assert counted.commands == [["services.agent.machine.roofline.host_roof"]]
    assert first.has_news
    first.added_to(announcement("a1", "i1"))
    await first.roof_for_order(LAYERS)
    assert not first.has_news


def of_precision(**options: Any) -> WorkOrder:
    return an_order(a_subject(options=options), (a_run(level="framework"),))


async def test_few_bits_are_measured_for_who_names_them_and_then_serve_all(
    tmp_path: Path, counted: Counted
) -> None:
    roofs = roofs_in(tmp_path)
    for order in (LAYERS, of_precision(precision="bfloat16"), LAYERS, of_precision(precision="")):
        await roofs.roof_for_order(order)
    plain = ["services.agent.machine.roofline.host_roof"]
    assert counted.commands == [plain, [*plain, "few-bits"]]
    await roofs_in(tmp_path).roof_for_order(LAYERS)
    assert len(counted.commands) == 2


@pytest.mark.parametrize(
    ("named", "few"),
    [("uint8", False), ("float32", False), ("int8", True), ("FP16", True), ("quantized", True)],
)
def test_precisions_are_told_by_their_names(named: str, few: bool) -> None:
    assert roof_devices.names_low_precision(a_subject(options={"kind": named})) is few


@pytest.mark.parametrize("order", [an_order(), on("gpu", "model"), on("npu")])
async def test_it_is_for_layers_on_a_known_device(
    tmp_path: Path, gpus: Counted, order: WorkOrder
) -> None:
    assert await roofs_in(tmp_path).roof_for_order(order) == NO_ROOF
    assert gpus.commands == []


async def test_each_gpu_is_measured_for_itself(tmp_path: Path, gpus: Counted) -> None:
    roofs = roofs_in(tmp_path)
    found = [await roofs.roof_for_order(on(each)) for each in ("gpu", "cuda:0", "cuda:1", "gpu:1")]
    assert [command[1:] for command in gpus.commands] == [["0", "GPU-aa"], ["1", "GPU-bb"]]
    peak = found[0].peaks["bfloat16"][0]
    assert peak.measured == 1.0
    assert peak.datasheet == pytest.approx(989.4e12)


async def test_another_driver_or_library_is_another_measurement(
    tmp_path: Path, gpus: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    await roofs_in(tmp_path).roof_for_order(on("gpu"))
    monkeypatch.setattr(roof_devices, "installed_gpu_library", lambda: "torch 2.12")
    await roofs_in(tmp_path).roof_for_order(on("gpu"))
    newer = H200.model_copy(update={"driver": "590.1"})
    monkeypatch.setattr(roof_devices, "nvidia_accelerators", lambda: iter((newer,)))
    await roofs_in(tmp_path).roof_for_order(on("gpu"))
    assert len(gpus.commands) == 3


@pytest.mark.parametrize(
    ("visible", "number", "found"),
    [
        ("", 0, "GPU-aa"),
        ("", 1, "GPU-bb"),
        ("1", 0, "GPU-bb"),
        ("1,0", 1, "GPU-aa"),
        ("GPU-b", 0, "GPU-bb"),
        ("1", 1, "number 1"),
        ("GPU-x", 0, "number 0"),
    ],
)
def test_cudas_number_is_a_place_among_visible_gpus(
    gpus: Counted, monkeypatch: pytest.MonkeyPatch, visible: str, number: int, found: str
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert roof_devices.gpu_device(number).device == found


async def test_of_a_gpu_that_nothing_measures_its_datasheet_tells(
    tmp_path: Path, gpus: Counted
) -> None:
    gpus.answers = [Roof(note="no roof of the GPU was measured: no torch")]
    found = await roofs_in(tmp_path).roof_for_order(on("gpu"))
    picked = found.for_run("bfloat16", 8)
    assert picked.ceilings["peak_flops"].datasheet == pytest.approx(989.4e12)
    assert picked.ceilings["peak_flops"].measured is None
    assert picked.note == "no roof of the GPU was measured: no torch"


async def test_a_failure_is_tried_again_at_the_next_start(tmp_path: Path, counted: Counted) -> None:
    counted.answers = [REFUSED, FOUND]
    first, second = roofs_in(tmp_path), roofs_in(tmp_path)
    notes = [(await each.roof_for_order(LAYERS)).note for each in (first, first, second)]
    assert notes == [REFUSED.note, REFUSED.note, ""]


async def test_a_failure_is_announced(tmp_path: Path, counted: Counted) -> None:
    counted.answers = [REFUSED]
    roofs = roofs_in(tmp_path)
    await roofs.roof_for_order(LAYERS)
    assert roofs.has_news
    assert roofs.added_to(announcement("a1", "i1")).hardware.roof_note == REFUSED.note


async def test_what_others_disturbed_is_measured_again_when_it_is_quiet(
    tmp_path: Path, counted: Counted, machine: Machine
) -> None:
    counted.answers = [LOUD, FOUND]
    roofs = roofs_in(tmp_path)
    machine.is_quiet = False
    disturbed = [(await roofs.roof_for_order(LAYERS)).disturbance for _ in range(3)]
    assert disturbed == [LOUD.disturbance] * 3
    assert len(counted.commands) == 1
    machine.is_quiet = True
    assert [(await roofs.roof_for_order(LAYERS)).disturbance for _ in range(3)] == [""] * 3
    assert len(counted.commands) == 2


async def test_what_others_disturbed_is_no_roof_of_the_device(
    tmp_path: Path, counted: Counted, machine: Machine
) -> None:
    counted.answers = [LOUD, FOUND]
    first, second = roofs_in(tmp_path), roofs_in(tmp_path)
    await first.roof_for_order(LAYERS)
    said = first.added_to(announcement("a1", "i1")).hardware
    assert said.peak_flops == {}
    assert said.roof_note == f"not measured yet: {LOUD.disturbance} at the last attempt"
    assert not (await second.roof_for_order(LAYERS)).is_disturbed
    assert first.added_to(announcement("a1", "i1")).hardware.roof_note == ""


async def test_a_device_that_only_looks_quiet_is_tried_ever_more_rarely(
    tmp_path: Path, counted: Counted, machine: Machine
) -> None:
    counted.answers = [LOUD]
    roofs = roofs_in(tmp_path)
    for _ in range(60):
        await roofs.roof_for_order(LAYERS)
        machine.now_s += PAUSE_S / 2
    # After 0, 1, 2 … pauses: within thirty of them eight times and the first.
    assert len(counted.commands) == 9


async def test_later_starts_measure_again_and_keep_the_best(
    tmp_path: Path, counted: Counted, machine: Machine
) -> None:
    rates = [10.0, 12.0, 9.0]
    counted.answers = [measured_at(machine.now_s + n * 1e4, rate) for n, rate in enumerate(rates)]
    counted.answers.append(measured_at(machine.now_s, 99.0))
    known: list[Ceiling] = []
    for _ in range(MEASUREMENTS + 2):
        roofs = roofs_in(tmp_path)
        found = [await roofs.roof_for_order(LAYERS) for _ in range(2)][-1]
        known.append(found.peaks["float32"][0])
        machine.now_s += 1e4
    assert len(counted.commands) == MEASUREMENTS
    assert [each.measured for each in known] == [10.0, 12.0, 12.0, 12.0, 12.0]
    assert [each.measurements for each in known] == [1, 2, 3, 3, 3]
    assert [each.uncertainty for each in known] == [
        0.01,
        pytest.approx(1 - 10 / 12),
        *[pytest.approx(1 - 9 / 12)] * 3,
    ]
    assert known[-1].measured_ns == known[1].measured_ns
    assert known[-1].conditions == {"others": 0.02}


async def test_a_restart_soon_after_or_beside_others_measures_nothing(
    tmp_path: Path, counted: Counted, machine: Machine
) -> None:
    counted.answers = [measured_at(machine.now_s, 10.0)]
    await roofs_in(tmp_path).roof_for_order(LAYERS)
    machine.now_s += APART_NS / 1e9 - 1
    await roofs_in(tmp_path).roof_for_order(LAYERS)
    assert (len(counted.commands), machine.checks) == (1, 0)
    machine.now_s, machine.is_quiet = machine.now_s + 1, False
    assert (await roofs_in(tmp_path).roof_for_order(LAYERS)).peaks["float32"][0].measured == 10.0
    assert (len(counted.commands), machine.checks) == (1, 1)


async def test_a_disturbed_session_leaves_the_kept_roof_as_it_is(
    tmp_path: Path, counted: Counted, machine: Machine
) -> None:
    counted.answers = [measured_at(machine.now_s, 10.0), LOUD]
    await roofs_in(tmp_path).roof_for_order(LAYERS)
    machine.now_s += 1e4
    found = await roofs_in(tmp_path).roof_for_order(LAYERS)
    assert len(counted.commands) == 2
    assert (found.disturbance, found.peaks["float32"][0].measured) == ("", 10.0)
    assert found.peaks["float32"][0].measurements == 1


def rewrite_as_release_0_1(file: Path) -> None:
    """Give a roof's file the form that release 0.1 wrote, with one measurement of no time."""
    old: dict[str, Any] = {"measured": 10.0, "datasheet": None, "method": "told"}
    roof = {"kind": "cpu", "device": "", "peaks": {"float32": {"1": old}}, "others": 0.05}
    roof |= {"bandwidths": {"1": old}, "lacking": {}, "note": ""}
    file.write_text(json.dumps({"of": json.loads(file.read_text())["of"], "roof": roof}))


async def test_a_file_of_release_0_1_is_a_session_of_unknown_time(
    tmp_path: Path, counted: Counted, machine: Machine
) -> None:
    await roofs_in(tmp_path).roof_for_order(LAYERS)
    (file,) = (tmp_path / "roofs").iterdir()
    rewrite_as_release_0_1(file)
    machine.is_quiet = False
    found = (await roofs_in(tmp_path).roof_for_order(LAYERS)).peaks["float32"][1]
    assert (found.measured, found.uncertainty, found.measurements) == (10.0, None, 1)
    machine.is_quiet = True
    counted.answers = [measured_at(machine.now_s, 8.0)]
    await roofs_in(tmp_path).roof_for_order(LAYERS)
    assert len(json.loads(file.read_text())["measurements"]) == 2


async def test_few_bits_and_all_are_one_host_whose_best_is_kept(
    tmp_path: Path, counted: Counted, machine: Machine
) -> None:
    counted.answers = [measured_at(machine.now_s, 12.0), measured_at(machine.now_s + 1, 10.0)]
    roofs = roofs_in(tmp_path)
    await roofs.roof_for_order(LAYERS)
    found = await roofs.roof_for_order(of_precision(precision="bfloat16"))
    assert (len(counted.commands), found.peaks["float32"][0].measured) == (2, 12.0)
    said = roofs.added_to(announcement("a1", "i1")).hardware
    assert said.peak_flops["float32"] == found.peaks["float32"][0]


def test_a_busy_machine_is_not_quiet() -> None:
    spin = [sys.executable, "-c", "while True: pass"]
    processes = [subprocess.Popen(spin) for _ in usable_core_numbers()]
    try:
        assert not asyncio.run(device_is_quiet(HOST))
    finally:
        for process in processes:
            process.kill()
            process.wait()


@pytest.mark.parametrize("torn", ["", "[]", "{}", '{"roof": {"kind": "cpu"}}'])
async def test_a_torn_file_is_measured_anew(tmp_path: Path, torn: str, counted: Counted) -> None:
    await roofs_in(tmp_path).roof_for_order(LAYERS)
    (kept,) = (tmp_path / "roofs").iterdir()
    kept.write_text(torn)
    assert (await roofs_in(tmp_path).roof_for_order(LAYERS)).peaks["float32"] == ONE
    assert len(counted.commands) == 2


async def test_a_folder_that_cannot_be_made_is_no_error(tmp_path: Path, counted: Counted) -> None:
    (tmp_path / "roofs").write_text("a file")
    assert (await roofs_in(tmp_path).roof_for_order(LAYERS)).peaks["float32"] == ONE
    assert len(counted.commands) == 1


async def test_agents_of_one_host_measure_one_after_the_other(
    tmp_path: Path, counted: Counted
) -> None:
    alone = [DeviceRoofs(tmp_path / str(n), tmp_path / "lock") for n in range(3)]
    await asyncio.gather(*(each.roof_for_order(LAYERS) for each in alone))
    assert (len(counted.commands), counted.most) == (3, 1)


async def test_who_waited_takes_what_the_other_measured(tmp_path: Path, counted: Counted) -> None:
    both = [roofs_in(tmp_path) for _ in range(3)]
    found = await asyncio.gather(*(each.roof_for_order(LAYERS) for each in both))
    assert [each.peaks["float32"] for each in found] == [ONE] * 3
    assert len(counted.commands) == 1


async def test_nobody_waits_for_ever(
    tmp_path: Path, counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = try_lock(tmp_path / "lock", "exclusive", make=True)
    assert held is not None
    monkeypatch.setattr(keeping, "LOCK_TIMEOUT_S", 0.01)
    found = await roofs_in(tmp_path).roof_for_order(LAYERS)
    assert (
        found.note
        == "the host's roof could not be measured: another agent was still measuring after 0.01 s"
    )
    assert counted.commands == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes files of other users")
async def test_nobody_waits_for_another_user(tmp_path: Path, counted: Counted) -> None:
    """Every user may make files in the folder of temporary ones, and hold them for ever."""
    assert try_lock(tmp_path / "lock", "exclusive", make=True) is not None
    os.chown(tmp_path / "lock", 4321, 4321)
    roof = await roofs_in(tmp_path).roof_for_order(LAYERS)
    assert roof.peaks["float32"] == ONE
    assert len(counted.commands) == 1


async def test_an_announcement_tells_what_is_known(
    tmp_path: Path, gpus: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = announcement("a1", "i1")
    hardware = said.hardware.model_copy(update={"accelerators": (H200, OTHER)})
    said = said.model_copy(update={"hardware": hardware})
    roofs = roofs_in(tmp_path)
    before = roofs.added_to(said)
    await roofs.roof_for_order(on("gpu"))
    assert roofs.has_news
    after = roofs.added_to(said)
    assert not roofs.has_news
    first, second = _peaks(before), _peaks(after)
    # Of the datasheet there is always; of a measurement once there was one.
    assert first == [(None, pytest.approx(989.4e12)), (None, pytest.approx(121e12))]
    assert second == [(1.0, pytest.approx(989.4e12)), (None, pytest.approx(121e12))]
    assert after.hardware.accelerators[1].roof_note == "not measured yet"


def _peaks(said: Announcement) -> list[tuple[float | None, float | None]]:
    peaks = [each.peak_flops["bfloat16"] for each in said.hardware.accelerators]
    return [(each.measured, each.datasheet) for each in peaks]


@pytest.mark.parametrize(("device", "number"), [("gpu", 0), ("cuda:1", 1), ("gpu:x", 0)])
def test_a_devices_name_ends_in_its_number(device: str, number: int) -> None:
    assert gpu_number(device) == number


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("import sys; sys.exit('no memory: 140 MB')", "no memory: 140 MB"),
        ("import os; os.kill(os.getpid(), 9)", "ended with -9"),
        ("print('hello')", "unreadable: "),
    ],
)
async def test_a_process_that_fails_leaves_a_note(
    monkeypatch: pytest.MonkeyPatch, code: str, told: str
) -> None:
    start = asyncio.create_subprocess_exec

    async def failing(*_: Any, **more: Any) -> asyncio.subprocess.Process:
        return await start(sys.executable, "-c", code, **more)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", failing)
    found = await measure_in_process(HOST, ["services.agent.machine.roofline.host_roof"])
    assert found.peaks == {}
    assert found.note.startswith(f"the host's roof could not be measured: {told}")


def test_what_was_measured_is_kept(tmp_path: Path) -> None:
    kept = KeptRoof((measured_at(1e9, 10.0), measured_at(2e9, 11.0)))
    save_kept(tmp_path, HOST, kept)
    assert load_kept(tmp_path, HOST) == kept
    assert load_kept(tmp_path, MeasuredDevice("cpu", "C", "C", cores=(1,))).roof is None


def most_held_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (peak,) = (line.split()[1] for line in lines if line.startswith("VmHWM"))
    return int(peak) * 1024


async def carried_out(roof: Roof, level: str, folder: Path) -> tuple[Kept, int]:
    """Do a run in a real worker; return what is said, and the most memory it held, in bytes."""
    kept, order = Kept(), an_order(runs=(a_run(level=level),))
    worker = await WorkerProcess.start("w", limits(folder))
    try:
        await Execution(
            OutcomePublisher(order, kept), worker, MANIFESTS, 60.0, roof=roof
        ).carry_out()
        peak_bytes = most_held_bytes(worker.pid)
    finally:
        await worker.close()
    return kept, peak_bytes


async def test_a_run_of_layers_is_told_it_and_pays_no_memory_for_it(tmp_path: Path) -> None:
    bare, least = await carried_out(FOUND, "model", tmp_path)
    deep, most = await carried_out(FOUND, "framework", tmp_path)
    assert bare.completed().conditions.peak_flops is None
    assert deep.completed().conditions.peak_flops == ONE[0]
    assert deep.completed().conditions.memory_bandwidth == ONE[0]
    assert most - least < 64 << 20


@pytest.mark.parametrize(("roof", "note"), [(REFUSED, REFUSED.note), (ON_GPU, "")])
async def test_what_is_not_known_of_its_device_is_a_caveat(
    tmp_path: Path, roof: Roof, note: str
) -> None:
    kept, _ = await carried_out(roof, "framework", tmp_path)
    assert kept.completed().conditions.peak_flops is None
    assert note in (*kept.completed().caveats, "")
