"""The roofs of a machine: one description for `doctor`, `show`, `ls` and the announcement."""

from pathlib import Path

import pytest
import yaml

from cli.findings import Finding
from cli.machine_checks import peaks
from cli.printing.catalog import catalog_rows, write_entries
from schemas.run import Ceiling
from schemas.status import AgentStatus, Catalog
from services.agent.host.announcing import announcement
from services.agent.host.roofs import stored as kept_roofs
from services.agent.host.roofs.devices import host_device
from services.agent.host.roofs.keeping import DeviceRoofs
from services.agent.host.roofs.stored import FOLDER, save_kept
from services.agent.machine.datasheets import UNKNOWN
from services.agent.machine.hardware import this_machine
from services.agent.machine.roofline.ceilings import Roof
from services.agent.machine.roofline.measurements import KeptRoof

NOON_NS = 1_795_435_200 * 10**9


def measurement(measured: float, at_ns: int) -> Roof:
    ceiling = Ceiling(measured=measured, method="m", uncertainty=0.012, measured_ns=at_ns)
    return Roof("cpu", "", {"float32": {1: ceiling}}, {1: ceiling})


BEST_OF_TWO = KeptRoof((measurement(50e9, NOON_NS), measurement(40e9, NOON_NS - 10**14)))
NONE_YET = KeptRoof(
    note="not measured yet: other processes used 50% of the cores at the last attempt"
)


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLSCOPE_DATA", str(tmp_path))
    monkeypatch.setattr(kept_roofs, "cpu_datasheet", lambda *_: UNKNOWN)


def seen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[Finding, str]:
    """Return what doctor finds of the host, and the line that show prints of an agent there."""
    announced = DeviceRoofs(tmp_path / FOLDER).added_to(announcement("a1", "i1"))
    write_entries(Catalog(agents=(AgentStatus(announcement=announced),)), "table")
    shown: str = yaml.safe_load(capsys.readouterr().out)["roofs"][0]
    return next(iter(peaks())), shown


def test_doctor_and_show_print_the_same_roof(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_kept(tmp_path / FOLDER, host_device(this_machine()), BEST_OF_TWO)
    finding, shown = seen(tmp_path, capsys)
    figures = (
        "float32 0.05 (up to 20.0% higher) TFLOP/s; memory 0.05 (up to 20.0% higher) TB/s; "
        "best of 2 measurements, 2026-11-23"
    )
    assert finding == Finding(finding.check, "ok", f"{figures} (of: datasheet)")
    assert shown == f"{finding.check.removeprefix('roof ')}: {figures}"


def test_doctor_and_show_say_why_there_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_kept(tmp_path / FOLDER, host_device(this_machine()), NONE_YET)
    finding, shown = seen(tmp_path, capsys)
    assert finding.state == "note"
    assert finding.advice == (
        "other processes used 50% of the cores at the last attempt; "
        "the next run that traces layers on it measures it"
    )
    assert shown.endswith(NONE_YET.note)
    (tmp_path / FOLDER / host_device(this_machine()).file).unlink()
    finding, shown = seen(tmp_path, capsys)
    assert finding.observation == "not measured yet"
    assert shown.endswith(": not measured yet")


def test_lists_tell_when_and_under_which_conditions(tmp_path: Path) -> None:
    save_kept(tmp_path / FOLDER, host_device(this_machine()), BEST_OF_TWO)
    announced = DeviceRoofs(tmp_path / FOLDER).added_to(announcement("a1", "i1"))
    (record,) = catalog_rows(
        Catalog(agents=(AgentStatus(announcement=announced),)), "agents"
    ).maps()
    peak = record["roofs"][0]["peak_flops"]["float32"]
    assert (peak["measured"], peak["measurements"], peak["measured_at"]) == (
        50e9,
        2,
        "2026-11-23T12:00:00Z",
    )
