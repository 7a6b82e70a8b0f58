"""The collector as a service: savers, a recorder, an announcer and a purger, side by side."""

import asyncio
from collections.abc import Sequence
from importlib.metadata import version
from typing import Protocol

from mlscope.bus.bus import Bus
from mlscope.bus.records import Recorded, ServiceInfo
from mlscope.serving import run_until_stopped
from services.collector.evaluations import Evaluations
from services.collector.holdings import Holdings
from services.collector.recollecting import Recollector
from services.collector.recording import AttemptRecorder
from services.collector.retention import Retention
from services.collector.saving import Saver
from services.collector.store import Store
from services.collector.stored_batches import StoredBatches
from services.collector.visibility import Visibility

_MESSAGES_A_TRANSACTION = 80


class CollectorSettings(Protocol):
    """What a collector needs to know."""

    @property
    def batch_deadline_s(self) -> float:
        """Seconds to wait for missing batches before a run is incomplete."""
        ...

    @property
    def purge_after_s(self) -> float:
        """Seconds a recorded run's messages stay in their streams at least."""
        ...

    @property
    def keep_unsaved_bytes(self) -> int:
        """Size up to which messages stay in their streams until a backup has them."""
        ...

    def database_conninfo(self) -> str:
        """Return the database's address, password included."""
        ...


async def serve(bus: Bus, settings: CollectorSettings, stop: asyncio.Event) -> None:
    """Collect from `bus` by `settings` until `stop` is set; then finish the current commits."""
    address = settings.database_conninfo()
    evaluations = Evaluations(bus)
    visibility = Visibility(bus, address)
    recorder = AttemptRecorder(bus, address, evaluations, visibility.note)
    batches = StoredBatches()

    def note_stored(stored: Sequence[Recorded]) -> None:
        batches.note(stored)
        visibility.note(stored)
        recorder.note_stored_rows()

    def note_recollected() -> None:
        visibility.look()
        recorder.note_stored_rows()

    spans = Saver(bus, [Store(address), Store(address)], evaluations, note_stored)
    queries = Saver(bus, [Store(address)], evaluations, note_stored)
    retention = Retention(bus, address, evaluations, settings.keep_unsaved_bytes)
    holdings = Holdings(bus, address, batches)
    recollector = Recollector(bus, address, evaluations, note_recollected)
    await bus.announce(
        ServiceInfo("collector", version("mlscope"), "Keeps what happened, once.", {}),
        lambda: {
            "rows": spans.rows + queries.rows,
            "rows_by_durable": {"spans": spans.rows, "queries": queries.rows},
            "buried": spans.buried + queries.buried,
            "waiting_runs": recorder.waiting,
            "lost_evaluations": len(holdings.lost),
            "unsaved_evaluations": holdings.unsaved,
            "database_only_evaluations": holdings.database_only,
            "held_bytes": retention.held_bytes,
        },
    )
    try:
        await run_until_stopped(
            stop,
            spans.run("spans", _MESSAGES_A_TRANSACTION),
            queries.run("queries", _MESSAGES_A_TRANSACTION),
            recorder.record(),
            recorder.announce(
                settings.batch_deadline_s,
                lambda within_s: spans.was_behind(within_s) or queries.was_behind(within_s),
            ),
            retention.purge(settings.purge_after_s),
            retention.make_room(settings.purge_after_s),
            holdings.watch(),
            recollector.watch(),
            visibility.watch(),
        )
    finally:
        for closing in (spans, queries, recorder, retention, holdings, recollector, visibility):
            closing.close()
