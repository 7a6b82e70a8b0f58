"""Whose file it is, and what it says: the one way in."""

import sqlite3
from dataclasses import replace
from pathlib import Path

import polars as pl

from services.agent.bundle import MAGIC
from services.agent.foreign import chrome, kineto, nested, nsys, onnx, replay
from services.agent.foreign.errors import ForeignError, ForeignFileBroken, ForeignFileUnknown
from services.agent.foreign.packed import unpacked
from services.agent.foreign.recording import LATEST_NS, Recording
from services.agent.foreign.sound import plain, wrong_in

_SQLITE = b"SQLite format 3\0"
_HEAD_BYTES = 1 << 16
_WHY_CHARACTERS = 200


_UNFORESEEN = (
    *(pl.exceptions.PolarsError, pl.exceptions.PanicException),
    *(ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError),
)
"""What reading a value of another kind than its tool writes may end in."""
_MARK = b"\xef\xbb\xbf"
"""Of UTF-8, which Windows' editors and shells put first."""


def read_foreign(path: Path) -> Recording:
    """Return what another tool's file says. Raises ForeignFileUnknown, ForeignFileBroken.

    torch.profiler's and Chrome's JSON, ONNX Runtime's profiles, Nsight Compute's CSV (`ncu --csv
    --page raw`), Nsight Systems' SQLite (`nsys export --type sqlite`), and our own exports; each
    also packed by gzip.
    """
    try:
        with unpacked(path) as file:
            found = _read(file)
        if wrong := wrong_in(found):
            raise ForeignFileBroken(str(path), f"is altered: it {wrong}")
        epoch_ns = found.epoch_ns if 0 <= found.epoch_ns <= LATEST_NS else 0
        return replace(found, spans=plain(found), epoch_ns=epoch_ns)
    except ForeignError as error:
        raise type(error)(str(path), error.why) from error
    except _UNFORESEEN as error:
        why, _, _ = str(error).partition("\n")
        raise ForeignFileBroken(
            str(path), f"holds a value that its tool never writes: {why[:_WHY_CHARACTERS]}"
        ) from error


def _read(path: Path) -> Recording:
    head = head_of(path)
    if head.startswith(_SQLITE):
        try:
            return nsys.recording_of(path)
        except sqlite3.Error as error:
            raise ForeignFileBroken(str(path), f"is no database of nsys: {error}") from error
    if head.startswith(MAGIC):
        raise ForeignFileUnknown(str(path), "is a bundle that gzip packed: unpack it first")
    if replay.is_report(head):
        return replay.recording_of(path)
    text = head.removeprefix(_MARK).lstrip()
    if text.startswith(b"[") and onnx.is_profile(head):
        return onnx.recording_of(path)
    if text.startswith((b"{", b"[")):
        return _of_events(path)
    raise ForeignFileUnknown(
        str(path),
        "is no bundle, nor a trace of torch.profiler, ONNX Runtime, ncu, nsys or Chrome",
    )


def head_of(path: Path) -> bytes:
    """Return a file's beginning. Raises ForeignFileBroken."""
    try:
        with path.open("rb") as file:
            return file.read(_HEAD_BYTES)
    except OSError as error:
        raise ForeignFileBroken(str(path), error.strerror or str(error)) from error


def _of_events(path: Path) -> Recording:
    events = chrome.read_events(path)
    if nested.is_ours(events):
        return nested.own_recording_of(path, events)
    return kineto.recording_of(events) if kineto.is_kineto(events) else nested.recording_of(events)
