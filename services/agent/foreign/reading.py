"""Whose file it is, and what it says: the one way in."""

import sqlite3
from pathlib import Path

from services.agent.foreign import chrome, kineto, nested, nsys, onnx, replay
from services.agent.foreign.errors import ForeignFileBroken, ForeignFileUnknown
from services.agent.foreign.recording import Recording

_SQLITE = b"SQLite format 3\0"
_HEAD_BYTES = 1 << 16


def read_foreign(path: Path) -> Recording:
    """Return what another tool's file says. Raises ForeignFileUnknown, ForeignFileBroken.

    torch.profiler's and Chrome's JSON, ONNX Runtime's profiles, Nsight Compute's CSV (`ncu --csv
    --page raw`), Nsight Systems' SQLite (`nsys export --type sqlite`), and our own exports.
    """
    head = head_of(path)
    if head.startswith(_SQLITE):
        try:
            return nsys.recording_of(path)
        except sqlite3.Error as error:
            raise ForeignFileBroken(str(path), f"is no database of nsys: {error}") from error
    if replay.is_report(head):
        return replay.recording_of(path)
    text = head.lstrip()
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
