"""oneDNN's primitives, from its verbose output (`onednn_verbose,…,exec,…`).

PyTorch can switch the output while it runs. In TensorFlow and OpenVINO oneDNN is linked without a
switch and reads ONEDNN_VERBOSE once, before the first primitive: the agent's owner sets it for the
whole agent, and it slows every run. Times are oneDNN's: a timestamp in epoch milliseconds
(ONEDNN_VERBOSE_TIMESTAMP, which workers set) and a duration.
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

_VERBOSE, _TIMESTAMP = "ONEDNN_VERBOSE", "ONEDNN_VERBOSE_TIMESTAMP"
OPTIONS: tuple[str, ...] = ()
_STDOUT = 1
_LAYOUT = (
    "operation", "engine", "primitive", "implementation",
    "prop_kind", "memory", "attributes", "auxiliary", "problem",
)  # fmt: skip

Switch = Callable[[bool], None]


def availability() -> Availability:
    """Return level library, with the installed frameworks whose oneDNN can be traced."""
    frameworks = ["pytorch"] if importlib.util.find_spec("torch") else []
    if os.environ.get(_VERBOSE, "0") not in ("", "0", "none"):
        return Availability((Level.LIBRARY,), "", ("cpu",), ("openvino", "pytorch", "tensorflow"))
    reason = (
        f"only PyTorch; TensorFlow and OpenVINO where {_VERBOSE}=1 is set for the agent,"
        " which slows every run; ONNX Runtime and LiteRT have kernels of their own"
    )
    levels = (Level.LIBRARY,) if frameworks else ()
    return Availability(levels, reason, ("cpu",), tuple(frameworks))


def open_collector(request: CollectorRequest) -> "OneDnnCollector":
    """Open the reader of one session's oneDNN. Raises CollectorUnavailable."""
    framework = request.opened.framework
    if framework not in availability().frameworks:
        raise CollectorUnavailable("onednn", f"oneDNN can't be traced in {framework}")
    if framework != "pytorch":  # the environment has switched the output on
        return OneDnnCollector(lambda _: None, request.scratch)
    torch = sys.modules.get("torch")
    if torch is None or not torch.backends.mkldnn.is_available():
        raise CollectorUnavailable("onednn", "this build of PyTorch has no oneDNN")
    set_verbose = torch._C._verbose.mkldnn_set_verbose  # noqa: SLF001 - no public switch
    return OneDnnCollector(lambda on: set_verbose(1 if on else 0), request.scratch)


class OneDnnCollector:
    """Redirects the output to a file while a block runs, and reads it afterwards."""

    name = "onednn"
    level = Level.LIBRARY

    def __init__(self, switch: Switch, scratch: Path) -> None:
        self._switch, self._scratch = switch, scratch
        self._file: BinaryIO | None = None
        self._stdout = -1

    def begin(self) -> None:
        """Redirect the process's standard output, to which oneDNN writes, to a file."""
        sys.stdout.flush()
        _flush_c()
        self._file = tempfile.TemporaryFile(dir=self._scratch)  # noqa: SIM115
        self._stdout = os.dup(_STDOUT)
        os.dup2(self._file.fileno(), _STDOUT)
        self._switch(True)

    def end(self) -> Collected:
        """Restore standard output, write all other lines to it, and return the primitives."""
        self._switch(False)
        lines = self._restore_output()
        offset_ns = epoch_offset_ns()
        own_lines = [line for line in lines if line.startswith("onednn_verbose")]
        calls = [span_of(line, offset_ns) for line in own_lines if ",exec," in line]
        spans = [span for span in calls if span is not None]
        other_lines = [f"{line}\n" for line in lines if not line.startswith("onednn_verbose")]
        if other_lines:
            os.write(_STDOUT, "".join(other_lines).encode())
        unreadable = len(calls) - len(spans)
        notes = (f"{unreadable} lines of oneDNN have no timestamp",) if unreadable else ()
        return Collected(spans, unreadable, notes)

    def close(self) -> None:
        """Restore standard output where a block was interrupted."""
        if self._file is not None:
            self._switch(False)
            self._restore_output()

    def _restore_output(self) -> Sequence[str]:
        """Restore standard output and return the lines of the file."""
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
    """Return an `exec` line as a span; None without timestamp or duration.

    `onednn_verbose,v1,STAMP,primitive,exec,ENGINE,PRIMITIVE,IMPLEMENTATION,…,PROBLEM,MILLISECONDS`
    `offset_ns`: the difference of epoch and CLOCK_MONOTONIC.
    """
    parts = line.strip().split(",")
    try:
        at = parts.index("exec")
        start_ns = round(float(parts[at - 2]) * 1e6) - offset_ns
        duration_ns = round(float(parts[-1]) * 1e6)
    except ValueError:
        return None
    fields = dict(zip(_LAYOUT, parts[at:-1], strict=False))
    attributes = {name: fields[name] for name in _LAYOUT[1:] if fields.get(name)}
    return CollectedSpan(
        Level.LIBRARY,
        f"onednn.{fields.get('primitive', '')}",
        start_ns,
        duration_ns,
        os.getpid(),
        attributes={"library": "oneDNN", **attributes},
    )


def _flush_c() -> None:
    ctypes.CDLL(None).fflush(None)
