"""Nsight Compute: hardware counters of every kernel, from a replay in a process of its own.

The run's session is opened again under `ncu` and warmed up, and one call of it is counted. Each
kernel runs again for every pass that its metrics need, so that process is not timed. Layers are
NVTX ranges. Needs `ncu` on the PATH or in CUDA's folders, and permission to read counters (root, or
the driver's NVreg_RestrictProfilingToAdminUsers=0).
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from mlscope.importing.errors import ReportUnreadable
from mlscope.importing.ncu.kernels import spans_of
from mlscope.importing.ncu.metrics import metrics_for
from mlscope.importing.ncu.report import CountedKernel, is_several, kernels_of
from mlscope.tracing.clock import now_ns
from schemas.level import Level
from services.agent.collectors import (
    Availability,
    Collected,
    CollectorRequest,
)
from services.agent.collectors.errors import CollectorUnavailable
from services.agent.collectors.ncu.process_tree import run_tree
from services.agent.predictors import Opened

OPTIONS: tuple[str, ...] = ("metrics", "timeout_s")
TIMEOUT_S = 500.0
_PATHS = ("/usr/local/cuda/bin/ncu", "/opt/nvidia/nsight-compute/*/ncu")
_PARAMETERS = Path("/proc/driver/nvidia/params")
_METRIC = re.compile(r"[A-Za-z0-9_.:]+|regex:[^\s,]+")
MAX_EXTRA = 128
"""Metrics of groups and patterns that are kept per kernel: a span's attributes are limited."""
_COMPILED = "the kernels of a compiled model are counted without their layers"
_DENIED = "ERR_NVGPUCTRPERM"
_MESSAGE = re.compile(r"^==(?:ERROR|WARNING)== (.*)$", re.MULTILINE)


def availability() -> Availability:
    """Return level hardware where counters can be read."""
    if tool() is None:
        return Availability((), "ncu (Nsight Compute) is not on the PATH")
    if not _PARAMETERS.exists():
        return Availability((), "no NVIDIA driver")
    if os.geteuid() != 0 and "RmProfilingAdminOnly: 1" in _PARAMETERS.read_text():
        return Availability((), "the driver lets only root read counters")
    return Availability((Level.HARDWARE,), devices=("gpu",))


def tool() -> str | None:
    """Return the path of `ncu`, None where it is not installed."""
    on_path = shutil.which("ncu")
    paths = (path for pattern in _PATHS for path in sorted(Path("/").glob(pattern[1:])))
    return on_path or next((str(path) for path in paths if os.access(path, os.X_OK)), None)


def open_collector(request: CollectorRequest) -> "NcuCollector":
    """Open it, with the options `metrics` (in addition to the usual ones) and `timeout_s`.

    A metric is anything that `ncu --metrics` accepts: a name, or `group:NAME`, `breakdown:NAME` or
    `regex:PATTERN`, which stand for several; a text has several separated by + or commas. Raises
    CollectorUnavailable.
    """
    path = tool()
    if path is None:
        raise CollectorUnavailable("ncu", "ncu (Nsight Compute) is not on the PATH")
    if request.reopening is None:
        raise CollectorUnavailable("ncu", "this session can't be opened in another process")
    option = request.options.get("metrics", ())
    requested = names_in(option) if isinstance(option, str) else list(map(str, option))
    if invalid := [metric for metric in requested if not _METRIC.fullmatch(metric)]:
        raise CollectorUnavailable("ncu", f"{invalid[0]!r} is not the name of a metric")
    return NcuCollector(path, request, metrics_for(request.opened.precision, requested))


def names_in(text: str) -> list[str]:
    """Return the metrics of a text; a pattern may contain a +."""
    return [text] if text.startswith("regex:") else re.split("[,+]", text)


class NcuCollector:
    """Replays the session once, after the first block of its run."""

    name = "ncu"
    level = Level.HARDWARE

    def __init__(self, path: str, request: CollectorRequest, metrics: Sequence[str]) -> None:
        """Count `metrics` with the `ncu` at a `path`, in the session of a `request`."""
        self._path, self._request, self._metrics = path, request, metrics
        self._timeout_s = float(request.options.get("timeout_s", TIMEOUT_S))
        self._began_ns = 0
        self._is_done = False

    def begin(self) -> None:
        """Note when the block begins, from where the counted kernels are laid out."""
        self._began_ns = now_ns()

    def end(self) -> Collected:
        """Replay and count, once; return the kernels with their counters."""
        if self._is_done:
            return Collected()
        self._is_done = True
        try:
            kernels = self._replay()
        except subprocess.TimeoutExpired:
            return Collected(notes=(f"the replay did not end within {self._timeout_s:g} s",))
        except (ReportUnreadable, OSError) as error:
            return Collected(notes=(f"{error}",))
        counted = {name for kernel in kernels for name in kernel.counters}
        extra = counted.difference(self._metrics)
        missing = [
            metric
            for metric in self._metrics
            if metric not in counted and not (is_several(metric) and extra)
        ]
        notes = [f"ncu did not count {', '.join(missing)}"] if missing else []
        if len(extra) > MAX_EXTRA:
            notes.append(f"only {MAX_EXTRA} of {len(extra)} additional metrics are kept")
        if is_compiled(self._request.opened):
            notes.append(_COMPILED)
        limited = [with_limited_extra(kernel, self._metrics) for kernel in kernels]
        return Collected(tuple(spans_of(limited, self._began_ns)), notes=tuple(notes))

    def close(self) -> None:
        """Do nothing: the replay's process has ended."""

    def _replay(self) -> list[CountedKernel]:
        """Return the counted kernels. Raises ReportUnreadable, OSError, TimeoutExpired."""
        scratch = self._request.scratch
        order, report = scratch / "ncu-order.bin", scratch / "ncu-report.csv"
        assert self._request.reopening is not None, "checked when opened"
        self._request.reopening.write(order)
        command = command_of(self._path, self._metrics, report, order)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        # The reason for a failure is the last line, after all that the model printed.
        environment["PYTHONUNBUFFERED"] = "1"
        status, printed = run_tree(command, environment, scratch, self._timeout_s)
        text = report.read_text("utf-8", "replace") if report.exists() else ""
        if status != 0 or not text:
            raise ReportUnreadable(failure_reason(text + printed))
        return kernels_of(text.splitlines(keepends=True), self._metrics)


def command_of(path: str, metrics: Sequence[str], report: Path, order: Path) -> list[str]:
    """Return the command that counts one call of a session.

    Clocks are not fixed and caches are not flushed, so that kernels run as they do in the model.
    Names stay mangled, because ncu spells them differently from Kineto.

    `path`: of ncu. `metrics`: to count. `report`: the file that it writes. `order`: the file that
    describes the session.
    """
    options = {
        "--clock-control": "none",
        "--cache-control": "none",
        "--profile-from-start": "off",
        "--target-processes": "application-only",
        "--page": "raw",
        "--print-units": "base",
        "--print-kernel-base": "mangled",
        "--metrics": ",".join(metrics),
        "--log-file": str(report),
    }
    arguments = [argument for option in options.items() for argument in option]
    replay = [sys.executable, "-P", "-m", "services.agent.worker.replay", str(order)]
    return [path, "--nvtx", "--csv", *arguments, *replay]


def is_compiled(opened: Opened) -> bool:
    """Say whether a model is compiled (`torch.compile`), so that its modules do not run."""
    return str(opened.options.get("compile", "none")) != "none"


def with_limited_extra(kernel: CountedKernel, metrics: Sequence[str]) -> CountedKernel:
    """Return a kernel with its counters of `metrics` and at most MAX_EXTRA others."""
    extra = [name for name in kernel.counters if name not in metrics]
    left_out = {*extra[MAX_EXTRA:]}
    counters = {name: value for name, value in kernel.counters.items() if name not in left_out}
    return replace(kernel, counters=counters)


def failure_reason(output: str) -> str:
    """Return why ncu or the replay failed, from its output."""
    if _DENIED in output:
        return "the driver lets only root read counters"
    if messages := _MESSAGE.findall(output):
        return str(messages[-1])
    last_line = output.strip().splitlines()[-1:] or ["it printed nothing"]
    return f"the replay failed: {last_line[0]}"
