"""Nsight Compute: hardware counters of every kernel, from a replay in a process of its own.

The run's session is opened once more under `ncu`, warmed up, and one call of it is counted: each
kernel is run again for every pass its metrics need, so nothing of that process is timed. Layers
travel as NVTX ranges. Needs `ncu` on the PATH or in CUDA's folders, and the right to read counters
(root, or the driver's NVreg_RestrictProfilingToAdminUsers=0).
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mlscope.tracing.clock import now_ns
from schemas.batch import SpanKind
from schemas.level import Level
from services.agent.collectors import (
    Availability,
    Collected,
    CollectedSpan,
    CollectorRequest,
)
from services.agent.collectors.cupti_names import demangled
from services.agent.collectors.errors import CollectorUnavailable, ReportUnreadable
from services.agent.collectors.ncu_flops import flops_of
from services.agent.collectors.ncu_metrics import (
    DURATION,
    OCCUPANCY,
    READ_BYTES,
    WRITTEN_BYTES,
    metrics_for,
)
from services.agent.collectors.ncu_replay import is_compiled
from services.agent.collectors.ncu_report import CountedKernel, is_several, kernels_of
from services.agent.collectors.process_tree import run_tree

OPTIONS: tuple[str, ...] = ("metrics", "timeout_s")
TIMEOUT_S = 500.0
_PLACES = ("/usr/local/cuda/bin/ncu", "/opt/nvidia/nsight-compute/*/ncu")
_PARAMETERS = Path("/proc/driver/nvidia/params")
_METRIC = re.compile(r"[A-Za-z0-9_.:]+|regex:[^\s,]+")
MOST_FURTHER = 128
"""Metrics beside the usual ones that are kept of a kernel: a span's attributes are bounded."""
_COMPILED = "kernels of a compiled model are counted without their layers"
_DENIED = "ERR_NVGPUCTRPERM"
_COMPLAINT = re.compile(r"^==(?:ERROR|WARNING)== (.*)$", re.MULTILINE)


def availability() -> Availability:
    """Say whether counters can be read here."""
    if tool() is None:
        return Availability((), "ncu (Nsight Compute) is not on the PATH")
    if not _PARAMETERS.exists():
        return Availability((), "no NVIDIA driver")
    if os.geteuid() != 0 and "RmProfilingAdminOnly: 1" in _PARAMETERS.read_text():
        return Availability((), "the driver lets only root read counters")
    return Availability((Level.HARDWARE,), devices=("gpu",))


def tool() -> str | None:
    """Return where `ncu` is."""
    found = shutil.which("ncu")
    places = (path for place in _PLACES for path in sorted(Path("/").glob(place[1:])))
    return found or next((str(path) for path in places if os.access(path, os.X_OK)), None)


def open_collector(request: CollectorRequest) -> "NcuCollector":
    """Open it; options `metrics` (added to the usual ones) and `timeout_s`.

    A metric is what `ncu --metrics` takes: a name, `group:NAME`, `breakdown:NAME` or
    `regex:PATTERN`, of which every metric is kept; a text has several with + or commas between.
    Raises CollectorUnavailable.
    """
    found = tool()
    if found is None:
        raise CollectorUnavailable("ncu", "ncu (Nsight Compute) is not on the PATH")
    if request.reopening is None:
        raise CollectorUnavailable("ncu", "this session can't be opened in another process")
    asked = request.options.get("metrics", ())
    asked = names_in(asked) if isinstance(asked, str) else [str(each) for each in asked]
    if wrong := [each for each in asked if not _METRIC.fullmatch(each)]:
        raise CollectorUnavailable("ncu", f"{wrong[0]!r} is no name of a metric")
    return NcuCollector(found, request, metrics_for(request.opened.precision, asked))


def names_in(text: str) -> list[str]:
    """Return the metrics that a text asks for; a pattern may hold a +."""
    return [text] if text.startswith("regex:") else re.split("[,+]", text)


class NcuCollector:
    """Replays the session once, after its run's first block."""

    name = "ncu"
    level = Level.HARDWARE

    def __init__(self, path: str, request: CollectorRequest, metrics: Sequence[str]) -> None:
        self._path, self._request, self._metrics = path, request, metrics
        self._timeout_s = float(request.options.get("timeout_s", TIMEOUT_S))
        self._began_ns = 0
        self._is_done = False

    def begin(self) -> None:
        """Note when the block begins: what is counted is laid out from there."""
        self._began_ns = now_ns()

    def end(self) -> Collected:
        """Replay and count, once; return each kernel with its counters."""
        if self._is_done:
            return Collected()
        self._is_done = True
        try:
            kernels = self._replayed()
        except subprocess.TimeoutExpired:
            return Collected(notes=(f"it did not end within {self._timeout_s:g} s",))
        except (ReportUnreadable, OSError) as error:
            return Collected(notes=(f"{error}",))
        notes = self._missing(kernels)
        if is_compiled(self._request.opened):
            notes = (*notes, _COMPILED)
        kept = [kept_of(kernel, self._metrics) for kernel in kernels]
        return Collected(tuple(spans_of(kept, self._began_ns)), notes=notes)

    def close(self) -> None:
        """Free nothing: the replay's process has ended."""

    def _replayed(self) -> list[CountedKernel]:
        scratch = self._request.scratch
        order, report = scratch / "ncu-order.bin", scratch / "ncu-report.csv"
        assert self._request.reopening is not None, "checked when opened"
        self._request.reopening.write(order)
        command = command_of(self._path, self._metrics, report, order)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        # A failure is told by the last line: what the model printed comes before it.
        environment["PYTHONUNBUFFERED"] = "1"
        status, printed = run_tree(command, environment, scratch, self._timeout_s)
        text = report.read_text("utf-8", "replace") if report.exists() else ""
        if status != 0 or not text:
            raise ReportUnreadable(complaint_of(text + printed))
        return kernels_of(text.splitlines(keepends=True), self._metrics)

    def _missing(self, kernels: Sequence[CountedKernel]) -> tuple[str, ...]:
        counted = {name for kernel in kernels for name in kernel.counters}
        further = counted.difference(self._metrics)
        missing = [
            name
            for name in self._metrics
            if name not in counted and not (is_several(name) and further)
        ]
        notes = [f"ncu counted no {', '.join(missing)}"] if missing else []
        if len(further) > MOST_FURTHER:
            notes.append(f"of {len(further)} further metrics {MOST_FURTHER} are kept")
        return tuple(notes)


def command_of(path: str, metrics: Sequence[str], report: Path, order: Path) -> list[str]:
    """Return the command that counts one call of the session in `order`.

    Clocks are left alone and caches are not flushed: kernels run as they do in the model. Names
    stay mangled: ncu would spell them otherwise than Kineto does.
    """
    return [
        path,
        *("--clock-control", "none", "--cache-control", "none"),
        *("--profile-from-start", "off", "--nvtx", "--target-processes", "application-only"),
        *("--csv", "--page", "raw", "--print-units", "base", "--print-kernel-base", "mangled"),
        *("--metrics", ",".join(metrics), "--log-file", str(report)),
        *(sys.executable, "-m", "services.agent.collectors.ncu_replay", str(order)),
    ]


def kept_of(kernel: CountedKernel, metrics: Sequence[str]) -> CountedKernel:
    """Return a kernel with the metrics named, and of those of groups as many as are kept."""
    further = [name for name in kernel.counters if name not in metrics]
    left_out = {*further[MOST_FURTHER:]}
    counters = {name: of for name, of in kernel.counters.items() if name not in left_out}
    return replace(kernel, counters=counters)


def complaint_of(output: str) -> str:
    """Return what ncu or the replay complained of."""
    if _DENIED in output:
        return "the driver lets only root read counters"
    if found := _COMPLAINT.findall(output):
        return str(found[-1])
    last = output.strip().splitlines()[-1:] or ["it said nothing"]
    return f"the replay failed: {last[0]}"


def spans_of(kernels: Sequence[CountedKernel], began_ns: int) -> Iterator[CollectedSpan]:
    """Yield the kernels in order, laid end to end: a replay's times are no measurement."""
    at_ns = began_ns
    for kernel in kernels:
        duration_ns = round(kernel.counters.get(DURATION, 0.0))
        yield CollectedSpan(
            level=Level.HARDWARE,
            name=demangled(kernel.name),
            start_ns=at_ns,
            duration_ns=duration_ns,
            thread=kernel.stream,
            kind=SpanKind.KERNEL,
            attributes=attributes_of(kernel),
        )
        at_ns += duration_ns


def attributes_of(kernel: CountedKernel) -> dict[str, Any]:
    """Return a kernel's counters, and what they come to: flops, bytes, occupancy (%)."""
    counters = kernel.counters
    attributes: dict[str, Any] = {
        "device": kernel.device,
        "grid": list(kernel.grid),
        "block": list(kernel.block),
        "layer": kernel.layer,
        "launch_index": kernel.launch_index,
        "counters": dict(counters),
    }
    if (flops := flops_of(counters)) is not None:
        attributes["flops"], attributes["flops_method"] = round(flops.value), flops.method
    for key, name in (("dram_read_bytes", READ_BYTES), ("dram_write_bytes", WRITTEN_BYTES)):
        if name in counters:
            attributes[key] = round(counters[name])
    if OCCUPANCY in counters:
        attributes["occupancy"] = counters[OCCUPANCY]
    return attributes
