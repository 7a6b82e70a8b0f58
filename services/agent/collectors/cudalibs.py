"""cuBLAS, cuBLASLt and cuDNN: the calls that a framework makes of them, by their own logs.

Each has a function that sends its log to a callback while the process runs, so nothing has to be
in the environment before it is loaded, and any framework that loaded them as shared libraries is
seen. A log costs tens of microseconds a call, more than launching a kernel does: only runs whose
deepest level is library have it, others when their request asks (`{"cudalibs": {"deep": true}}`).
Kernels that are no library's (PyTorch's own, Triton's, XLA's fusions) are calls of none.
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
from services.agent.collectors.cudalibs_log import LIBRARIES, Message, spans_of
from services.agent.collectors.errors import CollectorUnavailable

OPTIONS: tuple[str, ...] = ("deep",)
_STEMS = (
    ("cublas", ("libcublas.so",)),
    ("cublasLt", ("libcublasLt.so",)),
    ("cudnn", ("libcudnn_graph.so", "libcudnn.so")),
)
"""cuDNN 9's own calls are told by the library that makes graphs."""
_LT_TRACE, _LT_API = 2, 16
_CUDNN_INFORMATION = 1 << 3
_MAPS = Path("/proc/self/maps")
_DEPTH = (
    "its log slows every call: runs whose deepest level is library have it, others with its "
    "option deep"
)

Hear = Callable[[Message], None]
Unhear = Callable[[], None]


def availability() -> Availability:
    """Say whether a CUDA device's libraries can be in use here."""
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
    """Return where the libraries in a process's memory map are, by name."""
    files = {line.split(maxsplit=5)[-1] for line in maps.splitlines() if "/" in line}
    found: dict[str, str] = {}
    for name, stems in _STEMS:
        for stem in stems:
            path = next((file for file in sorted(files) if f"/{stem}" in file), None)
            if path is not None:
                found.setdefault(name, path)
    return found


class CudaLibraries:
    """Hears the libraries' logs while a block runs."""

    name = "cudalibs"
    level = Level.LIBRARY

    def __init__(self, libraries: Mapping[str, Any]) -> None:
        """Take loaded libraries by name: cublas, cublasLt, cudnn."""
        self._libraries = libraries
        self._messages: list[Message] = []
        self._unhear: list[Unhear] = []

    def begin(self) -> None:
        """Send each library's log to this process's own callback."""
        self._messages = []
        for name, library in self._libraries.items():
            self._unhear.append(_LISTENING[name](library, self._messages.append))

    def end(self) -> Collected:
        """Stop the logs and return the calls that compute."""
        self.close()
        heard = ", ".join(LIBRARIES[name] for name in self._libraries)
        notes = (f"calls of {heard} are timed by what their logs say: see each one's `duration`",)
        return Collected(spans_of(self._messages), notes=notes)

    def close(self) -> None:
        """Stop the logs."""
        while self._unhear:
            self._unhear.pop()()


def _hear_cublas(library: Any, hear: Hear) -> Unhear:
    """Hear cuBLAS: cublasSetLoggerCallback(void (*)(const char*)), cublasLoggerConfigure."""

    def told(text: bytes) -> None:
        hear(_message("cublas", text))

    callback = ctypes.CFUNCTYPE(None, ctypes.c_char_p)(told)
    library.cublasSetLoggerCallback(callback)
    library.cublasLoggerConfigure(1, 0, 0, None)

    def unhear(_: Any = callback) -> None:
        library.cublasLoggerConfigure(0, 0, 0, None)
        library.cublasSetLoggerCallback(None)

    return unhear


def _hear_cublas_lt(library: Any, hear: Hear) -> Unhear:
    """Hear cuBLASLt: cublasLtLoggerSetCallback(void (*)(int, const char*, const char*)), its mask.

    It also writes to a file, standard output unless another is opened.
    """

    def told(_: int, function: bytes, text: bytes) -> None:
        hear(_message("cublasLt", text, function.decode(errors="replace")))

    callback = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p)(told)
    library.cublasLtLoggerOpenFile(b"/dev/null")
    library.cublasLtLoggerSetCallback(callback)
    library.cublasLtLoggerSetMask(_LT_TRACE | _LT_API)

    def unhear(_: Any = callback) -> None:
        library.cublasLtLoggerSetMask(0)
        library.cublasLtLoggerSetCallback(None)

    return unhear


def _hear_cudnn(library: Any, hear: Hear) -> Unhear:
    """Hear cuDNN: cudnnSetCallback(mask, data, void (*)(severity, data, debug, const char*))."""

    def told(_severity: int, _data: int, _debug: int, text: bytes) -> None:
        hear(_message("cudnn", text))

    kind = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)
    callback = kind(told)
    library.cudnnSetCallback(_CUDNN_INFORMATION, None, callback)

    def unhear(_: Any = callback) -> None:
        library.cudnnSetCallback(0, None, None)

    return unhear


def _message(library: str, text: bytes | None, function: str = "") -> Message:
    at_ns, thread = now_ns(), threading.get_native_id()
    return Message(library, at_ns, thread, (text or b"").decode(errors="replace"), function)


_LISTENING: Mapping[str, Callable[[Any, Hear], Unhear]] = {
    "cublas": _hear_cublas,
    "cublasLt": _hear_cublas_lt,
    "cudnn": _hear_cudnn,
}
