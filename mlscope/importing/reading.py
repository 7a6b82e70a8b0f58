"""Reading of another tool's file: which tool wrote it, and what it holds (I/O)."""

import sqlite3
from dataclasses import replace
from pathlib import Path

import polars as pl

from mlscope.exchange.bundle import MAGIC
from mlscope.importing import chrome, own_export, unknown_tool
from mlscope.importing.errors import ForeignError, ForeignFileBroken, ForeignFileUnknown
from mlscope.importing.kineto import recording as kineto
from mlscope.importing.ncu import recording as ncu
from mlscope.importing.nsys import recording as nsys
from mlscope.importing.onnxruntime import recording as onnxruntime
from mlscope.importing.recording import MAX_START_NS, Recording
from mlscope.importing.unpacking import unpacked
from mlscope.importing.validation import first_problem, without_nul

_SQLITE = b"SQLite format 3\0"
_HEAD_BYTES = 1 << 16
_MAX_REASON = 200
"""Characters of an error's text that a refusal quotes."""
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""Of UTF-8: editors and shells of Windows put it first."""


def read_foreign(path: Path) -> Recording:
    """Return the recording that another tool's file holds.

    Raises ForeignFileUnknown, ForeignFileBroken. Read are torch.profiler's and Chrome's JSON, ONNX
    Runtime's profiles, Nsight Compute's CSV (`ncu --csv --page raw`), Nsight Systems' SQLite (`nsys
    export --type sqlite`), and exports of mlscope, each also packed by gzip.
    """
    try:
        with unpacked(path) as file:
            recording = _read(file)
        if problem := first_problem(recording):
            raise ForeignFileBroken(str(path), f"is altered: it {problem}")
    except ForeignError as error:
        raise type(error)(str(path), error.why) from error
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
        pl.exceptions.PanicException,
        pl.exceptions.PolarsError,
    ) as error:  # what a value of an unexpected type may raise
        reason, _, _ = str(error).partition("\n")
        raise ForeignFileBroken(
            str(path), f"holds a value that its tool never writes: {reason[:_MAX_REASON]}"
        ) from error
    epoch_ns = recording.epoch_ns if 0 <= recording.epoch_ns <= MAX_START_NS else 0
    return replace(recording, spans=without_nul(recording), epoch_ns=epoch_ns)


def _read(path: Path) -> Recording:
    """Return what an unpacked file holds, by the tool that its beginning shows."""
    head = head_of(path)
    if head.startswith(_SQLITE):
        try:
            return nsys.recording_of(path)
        except sqlite3.Error as error:
            raise ForeignFileBroken(str(path), f"is not a database of nsys: {error}") from error
    if head.startswith(MAGIC):
        raise ForeignFileUnknown(str(path), "is a bundle, not a trace")
    if ncu.is_report(head):
        return ncu.recording_of(path)
    text = head.removeprefix(_BYTE_ORDER_MARK).lstrip()
    if text.startswith(b"[") and onnxruntime.is_profile(head):
        return onnxruntime.recording_of(path)
    if not text.startswith((b"{", b"[")):
        raise ForeignFileUnknown(
            str(path),
            "is neither a bundle nor a trace of torch.profiler, ONNX Runtime, ncu, nsys or Chrome",
        )
    events = chrome.read_events(path)
    if own_export.is_own(events):
        return own_export.recording_of(str(path), events)
    if kineto.is_kineto(events):
        return kineto.recording_of(events)
    return unknown_tool.recording_of(events)


def head_of(path: Path) -> bytes:
    """Return a file's beginning. Raises ForeignFileBroken."""
    try:
        with path.open("rb") as file:
            return file.read(_HEAD_BYTES)
    except OSError as error:
        raise ForeignFileBroken.unreadable(str(path), error) from error
