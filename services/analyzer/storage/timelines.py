"""Timelines kept in the database: read before the spans they were made of, and written once.

They are a cache: bounded, and made again where absent, of another format, or of fewer spans.
"""

from pathlib import Path
from typing import Any

from psycopg.types.json import Jsonb

from services.analyzer.storage.session import Session, Sessions
from services.analyzer.storage.traces import TracedRun
from services.analyzer.traces.encoding import (
    FORMAT,
    OUTLINE,
    SPANS,
    description_of,
    encoded,
    outline_of,
    whole_of,
)
from services.analyzer.traces.resolutions import Prepared

KEPT_BYTES = 8 << 30
"""The most that all timelines take in the database."""
_PART_BYTES = 8 << 20


class KeptTimelines:
    """Reads and writes timelines in one session after another. Raises DatabaseAway."""

    def __init__(self, database_url: str) -> None:
        """Connect to `database_url` at the first read."""
        self._sessions = Sessions(database_url, Path(__file__).with_name("traces.sql"))

    def outline(self, traced: TracedRun) -> Prepared | None:
        """Return the tiles of a run, which show the whole of it; None where none are kept."""
        file = self._file(traced, OUTLINE)
        return outline_of(*file) if file else None

    def whole_trace(self, traced: TracedRun) -> Prepared | None:
        """Return the trace of a run, None where it is not kept."""
        file = self._file(traced, SPANS)
        return whole_of(*file) if file else None

    def has(self, traced: TracedRun) -> bool:
        """Tell whether the timeline of a run is kept as it would be made now."""
        return bool(self._sessions.read(lambda session: session.maps("timeline", _key(traced))))

    def keep(self, traced: TracedRun, trace: Prepared, most_bytes: int = KEPT_BYTES) -> None:
        """Write the whole `trace` of a run, `traced`; delete the oldest beyond `most_bytes`."""
        files = encoded(trace)
        size = sum(len(file) for file in files.values())
        key = _key(traced)
        with self._sessions.transaction() as session:
            session.execute("lock_timeline", key)
            session.execute("delete_timeline", key)
            description = Jsonb(description_of(trace))
            values = {"evaluation": traced.evaluation, "description": description, "bytes": size}
            session.execute("insert_timeline", key | values)
            for resolution, file in files.items():
                for part, first in enumerate(range(0, len(file), _PART_BYTES)):
                    content = file[first : first + _PART_BYTES]
                    place = {"resolution": resolution, "part": part, "content": content}
                    session.execute("insert_timeline_part", key | place)
            session.execute("delete_old_timelines", key | {"most_bytes": most_bytes})

    def close(self) -> None:
        """Close the connection."""
        self._sessions.close()

    def _file(self, traced: TracedRun, resolution: int) -> tuple[dict[str, Any], bytes] | None:
        key = _key(traced)

        def read(session: Session) -> tuple[dict[str, Any], bytes] | None:
            rows = session.maps("timeline", key)
            parts = session.maps("timeline_parts", key | {"resolution": resolution})
            if not rows or not parts:
                return None
            return rows[0]["description"], b"".join(row["content"] for row in parts)

        return self._sessions.read(read)


def _key(traced: TracedRun) -> dict[str, Any]:
    run_key, stored = traced.version
    return {"run_key": run_key, "stored": stored, "format": FORMAT}
