"""The columns of a run's spans and queries as they are read: one array each. Pure.

A string of big-endian integers is the fastest way to read a column (see `frames.columns`).
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

Ns = npt.NDArray[np.int64]
Columns = Mapping[str, npt.NDArray[Any]]

WIRE: Mapping[str, str] = MappingProxyType(
    {
        "span": ">i8",
        "parent": ">i8",
        "level": ">i2",
        "name": ">i4",
        "start_ns": ">i8",
        "duration_ns": ">i8",
        "thread": ">i4",
        "query": ">i4",
        "kind": ">i2",
        "correlation": ">i8",
        "device": ">i4",
    }
)
QUERY_WIRE: Mapping[str, str] = MappingProxyType(
    {
        "query": ">i4",
        "due_ns": ">i8",
        "issued_ns": ">i8",
        "started_ns": ">i8",
        "ended_ns": ">i8",
        "status": ">i2",
    }
)
SAMPLE_WIRE: Mapping[str, str] = MappingProxyType({"span": ">i8", "value": ">f8"})


def unpacked(row: Mapping[str, bytes | None], wire: Mapping[str, str]) -> Columns:
    """Return the columns of a row of byte strings; absent ones are empty."""
    return {
        name: np.frombuffer(row.get(name) or b"", kind).astype(np.dtype(kind).newbyteorder("="))
        for name, kind in wire.items()
    }


def joined(pages: Sequence[Columns]) -> Columns:
    """Return the columns of several pages as one."""
    return {name: np.concatenate([page[name] for page in pages]) for name in pages[0]}
