"""Readable C++ names of kernels, by the C++ runtime's own demangler."""

import ctypes
from collections.abc import Callable
from functools import lru_cache

_MAX_NAMES = 65_536


def demangled(name: str) -> str:
    """Return a mangled name (`_Z…`) as C++ writes it, any other name unchanged.

    Where no C++ runtime is found, all names are unchanged.
    """
    demangle = _demangler() if name.startswith("_Z") else None
    return demangle(name) if demangle is not None else name


@lru_cache(maxsize=1)
def _demangler() -> Callable[[str], str] | None:
    """Return `abi::__cxa_demangle` (Itanium C++ ABI), which Kineto uses too."""
    try:
        function = getattr(ctypes.CDLL("libstdc++.so.6"), "__cxa_demangle")
        free = ctypes.CDLL(None).free
    except (OSError, AttributeError):
        return None
    function.restype = ctypes.c_void_p
    function.argtypes = (ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
    free.argtypes = (ctypes.c_void_p,)

    @lru_cache(maxsize=_MAX_NAMES)
    def demangle(name: str) -> str:
        status = ctypes.c_int()
        demangled_text = function(name.encode(), None, None, ctypes.byref(status))
        if not demangled_text:
            return name
        try:
            return ctypes.string_at(demangled_text).decode("utf-8", "replace")
        finally:
            free(demangled_text)

    return demangle
