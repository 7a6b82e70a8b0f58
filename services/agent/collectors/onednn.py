"""oneDNN's primitives: its own verbose output (`onednn_verbose,…,exec,…`), read as spans.

Where the framework lets it be switched while it runs (PyTorch). In TensorFlow and OpenVINO oneDNN
is linked in without a switch and reads ONEDNN_VERBOSE once, before the first primitive: there the
agent's owner sets it for the whole agent, and every run pays for it. Times are oneDNN's own: a
time stamp in epoch milliseconds (ONEDNN_VERBOSE_TIMESTAMP, which workers set) and a duration.
https://uxlfoundation.github.io/oneDNN/dev_guide_verbose.html
"""

import ctypes
import importlib.util
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO

from mlscope.tracing.clock import epoch_offset_ns
from schemas.level import Level
from services.agent.collectors import Availability, Collected, CollectedSpan, CollectorRequest
from services.agent.collectors.errors import CollectorUnavailable

_VERBOSE, _STAMPED = "ONEDNN_VERBOSE", "ONEDNN_VERBOSE_TIMESTAMP"
OPTIONS: tuple[str, ...] = ()
_STDOUT = 1
_LAYOUT = (
    "operation", "engine", "primitive", "implementation",
    "prop_kind", "memory", "attributes", "auxiliary", "problem",
)  # fmt: skip

Switch = Callable[[bool], None]


def availability() -> Availability:
    """Say which frameworks here have a oneDNN that can be seen."""
    frameworks = ["pytorch"] if importlib.util.find_spec("torch") else []
    if os.environ.get(_VERBOSE, "0") not in ("", "0", "none"):
        return Availability((Level.LIBRARY,), "", ("cpu",), ("openvino", "pytorch", "tensorflow"))
    reason = (
        f"PyTorch's alone; TensorFlow's and OpenVINO's where {_VERBOSE}=1 is set for the agent,"
        " which slows every run; ONNX Runtime and LiteRT bring kernels of their own"
    )
    levels = (Level.LIBRARY,) if frameworks else ()
    return Availability(levels, reason, ("cpu",), tuple(frameworks))


def open_collector(request: CollectorRequest) -> "OneDnnCollector":
    """Open the reader of one session's oneDNN. Raises CollectorUnavailable."""
    framework = request.opened.framework
    if framework not in availability().frameworks:
        raise CollectorUnavailable("onednn", f"oneDNN is not seen in {framework}")
    return OneDnnCollector(_switch_of(framework), request.scratch)


def _switch_of(framework: str) -> Switch:
    """Return what turns the output on and off; nothing to turn where the environment did."""
    if framework != "pytorch":
        return lambda _: None
    torch = sys.modules.get("torch")
    if torch is None or not torch.backends.mkldnn.is_available():
        raise CollectorUnavailable("onednn", "this build of PyTorch has no oneDNN")
    set_verbose = torch._C._verbose.mkldnn_set_verbose  # noqa: SLF001 - no public switch
    return lambda on: set_verbose(1 if on else 0)


class OneDnnCollector:
    """Has the output written to a file while a block runs, and reads it afterwards."""

    name = "onednn"
    level = Level.LIBRARY

    def __init__(self, switch: Switch, scratch: Path) -> None:
        self._switch, self._scratch = switch, scratch
        self._file: BinaryIO | None = None
        self._stdout = -1

    def begin(self) -> None:
        """Send the process's standard output to a file, where oneDNN writes."""
        sys.stdout.flush()
        _flush_c()
        self._file = tempfile.TemporaryFile(dir=self._scratch)  # noqa: SIM115
        self._stdout = os.dup(_STDOUT)
        os.dup2(self._file.fileno(), _STDOUT)
        self._switch(True)

    def end(self) -> Collected:
        """Give standard output back, with what others wrote; return the primitives."""
        self._switch(False)
        lines = self._restored()
        offset_ns = epoch_offset_ns()
        spans, unreadable, others = [], 0, []
        for line in lines:
            if not line.startswith("onednn_verbose"):
                others.append(line)
            elif ",exec," in line:
                span = span_of(line, offset_ns)
                unreadable += span is None
                spans += [span] if span else []
        if others:
            os.write(_STDOUT, "".join(f"{line}\n" for line in others).encode())
        notes = (f"{unreadable} lines of oneDNN have no time stamp",) if unreadable else ()
        return Collected(spans, unreadable, notes)

    def close(self) -> None:
        """Give standard output back where a block was left in its middle."""
        if self._file is not None:
            self._switch(False)
            self._restored()

    def _restored(self) -> Sequence[str]:
        assert self._file is not None, "end without begin"
        sys.stdout.flush()
        _flush_c()
        os.dup2(self._stdout, _STDOUT)
        os.close(self._stdout)
        with self._file as file:
            file.seek(0)
            lines = file.read().decode(errors="replace").splitlines()
        self._file = None
        return lines


def span_of(line: str, offset_ns: int) -> CollectedSpan | None:
    """Return an `exec` line as a span; None without time stamp or duration.

    `onednn_verbose,v1,STAMP,primitive,exec,ENGINE,PRIMITIVE,IMPLEMENTATION,…,PROBLEM,MILLISECONDS`;
    `offset_ns` is epoch less CLOCK_MONOTONIC.
    """
    parts = line.strip().split(",")
    try:
        at = parts.index("exec")
        start_ns = round(float(parts[at - 2]) * 1e6) - offset_ns
        duration_ns = round(float(parts[-1]) * 1e6)
    except ValueError:
        return None
    told = dict(zip(_LAYOUT, parts[at:-1], strict=False))
    kept = {name: told[name] for name in _LAYOUT[1:] if told.get(name)}
    return CollectedSpan(
        Level.LIBRARY,
        f"onednn.{told.get('primitive', '')}",
        start_ns,
        duration_ns,
        os.getpid(),
        attributes={"library": "oneDNN", **kept},
    )


def _flush_c() -> None:
    ctypes.CDLL(None).fflush(None)
