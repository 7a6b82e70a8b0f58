"""Python pickles of plain data and NumPy arrays, read without running what they name.

A pickle may call any function. Here the few names that such data needs lead to stand-ins of our
own, which keep what they are given and call nothing; any other name is refused.
"""

import io
import pickle
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mlscope.datasets.errors import FileBroken
from mlscope.datasets.opcodes import check_opcodes

_MOST_BYTES = 512 << 20
_MOST_SHOWN = 200


class PickledArray:
    """An array as a pickle describes it: what was set as its state, unread."""

    def __init__(self, *_: object) -> None:
        self.shape: tuple[int, ...] = ()
        self.kind = ""
        self.body = b""

    def __setstate__(self, state: Any) -> None:
        """Keep the state (version, shape, element type, is Fortran's order, bytes)."""
        _, shape, kind, is_fortran, body = state
        whole = isinstance(shape, tuple) and all(type(size) is int for size in shape)
        if not whole or is_fortran or not isinstance(kind, PickledType):
            raise pickle.UnpicklingError("an array that is not described as numbers in C order")
        if not isinstance(body, bytes):
            raise pickle.UnpicklingError("an array of objects")
        self.shape, self.kind, self.body = shape, kind.name, body


class PickledType:
    """An element type as a pickle describes it."""

    def __init__(self, name: Any = "", *_: object) -> None:
        if not isinstance(name, bytes | str):
            raise pickle.UnpicklingError("an element type without a name")
        self.name = name.decode("latin1") if isinstance(name, bytes) else name

    def __setstate__(self, state: Any) -> None:
        """Take no notice: a plain element type is all in its name."""


def _reconstruct(*_: object) -> PickledArray:
    return PickledArray()


_STAND_INS: Mapping[tuple[str, str], Any] = MappingProxyType(
    {
        ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
        ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
        ("numpy", "ndarray"): PickledArray,
        ("numpy", "dtype"): PickledType,
    }
)


class _Plain(pickle.Unpickler):
    """Knows the stand-ins, and no other name."""

    def __init__(self, body: bytes) -> None:
        super().__init__(io.BytesIO(body), encoding="bytes")
        self._left_bytes = len(body)

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("_codecs", "encode"):
            return self._encoded
        found = _STAND_INS.get((module, name))
        if found is None:
            raise pickle.UnpicklingError(f"names {module}.{name}, which is not data")
        return found

    def _encoded(self, text: Any, encoding: Any = "latin1") -> bytes:
        if not isinstance(text, str) or encoding not in ("latin1", b"latin1"):
            raise pickle.UnpicklingError("text in another encoding than latin1")
        self._left_bytes -= len(text)
        if self._left_bytes < 0:
            raise pickle.UnpicklingError("encodes more text than it holds")
        return text.encode("latin1")


def plain_pickle(path: Path, shown: str) -> dict[str, Any]:
    """Return the map in a pickle, its keys as text. Raises FileBroken for anything else."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise FileBroken(shown, f"is larger than {_MOST_BYTES} bytes")
        body = path.read_bytes()
        check_opcodes(body)
        found = _Plain(body).load()
    except OSError as error:
        raise FileBroken(shown, error.strerror or str(error)) from error
    except (
        pickle.UnpicklingError,
        ValueError,
        TypeError,
        LookupError,
        EOFError,
        AttributeError,
        MemoryError,
        OverflowError,
    ) as error:
        reason = str(error)[:_MOST_SHOWN] or "cut short"
        raise FileBroken(shown, f"no pickle of plain data: {reason}") from error
    if not isinstance(found, dict):
        raise FileBroken(shown, f"holds {type(found).__name__}, expected a map")
    if not all(isinstance(key, bytes | str) for key in found):
        raise FileBroken(shown, "holds a map whose keys are no texts")
    return {_text(key): value for key, value in found.items()}


def _text(key: bytes | str) -> str:
    return key.decode("latin1") if isinstance(key, bytes) else key
