"""Calls of cuBLAS, cuBLASLt and cuDNN, from the libraries' own logs.

Each library has a function that sends its log to a callback while the process runs, so no
environment variable has to be set before it is loaded, and it works for any framework that loads
them as shared libraries. Logging costs tens of microseconds per call, more than launching a kernel:
only runs whose deepest level is library collect it, others on request (`{"cudalibs": {"deep":
true}}`). Kernels outside these libraries (PyTorch's own, Triton's, XLA's fusions) have no call.
https://docs.nvidia.com/cuda/cublas (logging), https://docs.nvidia.com/deeplearning/cudnn
"""

import ctypes
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mlscope.tracing.clock import now_ns
from schemas.level import Level
from services.agent.collectors import Availability, Collected, CollectorRequest
from services.agent.collectors.cudalibs.log import LIBRARIES, Message, spans_of
from services.agent.collectors.errors import CollectorUnavailable

OPTIONS: tuple[str, ...] = ("deep",)
_STEMS = (
    ("cublas", ("libcublas.so",)),
    ("cublasLt", ("libcublasLt.so",)),
    ("cudnn", ("libcudnn_graph.so", "libcudnn.so")),
)
"""How the files' names begin; cuDNN 9 logs its calls in the library that makes graphs."""
_LT_TRACE, _LT_API = 2, 16
_CUDNN_INFORMATION = 1 << 3
_MAPS = Path("/proc/self/maps")
_DEPTH = (
    "its log slows every call: only runs whose deepest level is library collect it, others with "
    "its option deep"
)

OnMessage = Callable[[Message], None]
Stop = Callable[[], None]


def availability() -> Availability:
    """Return level library where the CUDA driver is installed."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return Availability((), "the CUDA driver (libcuda.so.1) is not found")
    return Availability((Level.LIBRARY,), _DEPTH, devices=("gpu",))


def open_collector(request: CollectorRequest) -> "CudaLibraries":
    """Open the logs of the libraries in this process. Raises CollectorUnavailable."""
    if request.level > Level.LIBRARY and not request.options.get("deep"):
        raise CollectorUnavailable("cudalibs", _DEPTH)
    paths = loaded_paths(_MAPS.read_text())
    if not paths:
        names = ", ".join(LIBRARIES.values())
        raise CollectorUnavailable("cudalibs", f"{request.opened.framework} loaded none of {names}")
    return CudaLibraries({name: ctypes.CDLL(path) for name, path in paths.items()})


def loaded_paths(maps: str) -> dict[str, str]:
    """Return the paths of the libraries in a process's memory map (/proc/PID/maps), by name."""
    files = {line.split(maxsplit=5)[-1] for line in maps.splitlines() if "/" in line}
    paths: dict[str, str] = {}
    for name, stems in _STEMS:
        matching = (file for stem in stems for file in sorted(files) if f"/{stem}" in file)
        path = next(matching, None)
        if path is not None:
            paths[name] = path
    return paths


class CudaLibraries:
    """Reads the libraries' logs while a block runs."""

    name = "cudalibs"
    level = Level.LIBRARY

    def __init__(self, libraries: Mapping[str, Any]) -> None:
        """Take loaded libraries by name: cublas, cublasLt, cudnn."""
        self._libraries = libraries
        self._messages: list[Message] = []
        self._stops: list[Stop] = []

    def begin(self) -> None:
        """Send each library's log to a callback of this process."""
        self._messages = []
        for name, library in self._libraries.items():
            self._stops.append(_START[name](library, self._messages.append))

    def end(self) -> Collected:
        """Stop the logs and return the calls that compute."""
        self.close()
        libraries = ", ".join(LIBRARIES[name] for name in self._libraries)
        notes = (f"calls of {libraries} are timed from their logs: see the attribute `duration`",)
        return Collected(spans_of(self._messages), notes=notes)

    def close(self) -> None:
        """Stop the logs."""
        while self._stops:
            self._stops.pop()()


def _start_cublas(library: Any, on_message: OnMessage) -> Stop:
    """Log cuBLAS: cublasSetLoggerCallback(void (*)(const char*)), cublasLoggerConfigure."""

    def receive(text: bytes) -> None:
        on_message(_message("cublas", text))

    callback = ctypes.CFUNCTYPE(None, ctypes.c_char_p)(receive)
    library.cublasSetLoggerCallback(callback)
    library.cublasLoggerConfigure(1, 0, 0, None)

    def stop(_: Any = callback) -> None:
        library.cublasLoggerConfigure(0, 0, 0, None)
        library.cublasSetLoggerCallback(None)

    return stop


def _start_cublas_lt(library: Any, on_message: OnMessage) -> Stop:
    """Log cuBLASLt: cublasLtLoggerSetCallback(void (*)(int, const char*, const char*)), its mask.

    cuBLASLt also writes to a file, to standard output unless another one is opened.
    """

    def receive(_: int, function: bytes, text: bytes) -> None:
        on_message(_message("cublasLt", text, function.decode(errors="replace")))

    callback = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p)(receive)
    library.cublasLtLoggerOpenFile(b"/dev/null")
    library.cublasLtLoggerSetCallback(callback)
    library.cublasLtLoggerSetMask(_LT_TRACE | _LT_API)

    def stop(_: Any = callback) -> None:
        library.cublasLtLoggerSetMask(0)
        library.cublasLtLoggerSetCallback(None)

    return stop


def _start_cudnn(library: Any, on_message: OnMessage) -> Stop:
    """Log cuDNN: cudnnSetCallback(mask, data, void (*)(severity, data, debug, const char*))."""

    def receive(_severity: int, _data: int, _debug: int, text: bytes) -> None:
        on_message(_message("cudnn", text))

    kind = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)
    callback = kind(receive)
    library.cudnnSetCallback(_CUDNN_INFORMATION, None, callback)

    def stop(_: Any = callback) -> None:
        library.cudnnSetCallback(0, None, None)

    return stop


def _message(library: str, text: bytes | None, function: str = "") -> Message:
    at_ns, thread = now_ns(), threading.get_native_id()
    return Message(library, at_ns, thread, (text or b"").decode(errors="replace"), function)


_START: Mapping[str, Callable[[Any, OnMessage], Stop]] = {
    "cublas": _start_cublas,
    "cublasLt": _start_cublas_lt,
    "cudnn": _start_cudnn,
}
