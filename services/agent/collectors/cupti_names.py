"""C++ names of kernels as people read them: by the C++ runtime's own demangler."""

import ctypes
from collections.abc import Callable
from functools import lru_cache

_MOST_NAMES = 65_536


def demangled(name: str) -> str:
    """Return a mangled name (`_Z…`) as C++ writes it; any other name, or all where no C++
    runtime is found, as it stands.
    """  # noqa: D205
    return _cached(name) if name.startswith("_Z") else name


@lru_cache(maxsize=_MOST_NAMES)
def _cached(name: str) -> str:
    demangle = _demangler()
    return demangle(name) if demangle is not None else name


@lru_cache(maxsize=1)
def _demangler() -> Callable[[str], str] | None:
    """Return `abi::__cxa_demangle` (Itanium C++ ABI), the one that Kineto uses too."""
    try:
        function = getattr(ctypes.CDLL("libstdc++.so.6"), "__cxa_demangle")
        free = ctypes.CDLL(None).free
    except (OSError, AttributeError):
        return None
    function.restype = ctypes.c_void_p
    function.argtypes = (ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
    free.argtypes = (ctypes.c_void_p,)

    def demangle(name: str) -> str:
        status = ctypes.c_int()
        made = function(name.encode(), None, None, ctypes.byref(status))
        if not made:
            return name
        try:
            return ctypes.string_at(made).decode("utf-8", "replace")
        finally:
            free(made)

    return demangle
