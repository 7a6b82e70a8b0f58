"""Notices a nats-server that goes on refusing to store once its full disk has room again.

A nats-server (2.12) whose write failed refuses every later write to that file until it is
started anew; whoever publishes sees "no space left on device" for ever.
"""

import shutil
from pathlib import Path

ROOM_BYTES = 32 << 20
_COMPLAINT = b"no space left on device"


class StorageWatch:
    """Reads on in a server's log with every look, and looks at the disk of its folder."""

    def __init__(self, folder: Path, log: Path) -> None:
        """Watch the server that keeps its streams below `folder`; what `log` holds is past."""
        self._folder, self._log = folder, log
        self._read_bytes = log.stat().st_size if log.exists() else 0
        self._had_room = False

    def is_stuck(self) -> bool:
        """Tell whether it complained since the last look, and there was room then as now."""
        complained = _COMPLAINT in self._news()
        had_room, self._had_room = self._had_room, self._has_room()
        return complained and had_room and self._had_room

    def _has_room(self) -> bool:
        return shutil.disk_usage(self._folder).free >= ROOM_BYTES

    def _news(self) -> bytes:
        try:
            with self._log.open("rb") as file:
                if self._log.stat().st_size < self._read_bytes:
                    self._read_bytes = 0
                file.seek(self._read_bytes)
                news = file.read()
        except OSError:
            return b""
        self._read_bytes += len(news)
        return news
