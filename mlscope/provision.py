"""Makes streams, durables, buckets and stores on a NATS server: `mlscope provision`.

It uses the provisioner's key.
"""

import logging
from dataclasses import replace
from typing import Protocol

from mlscope.bus.nats.admin import Admin
from mlscope.bus.nats.settings import NatsSettings
from mlscope.bus.streams import (
    ARTIFACTS,
    BUCKETS,
    DURABLES,
    LEASES,
    STORES,
    STREAMS,
    UPLOADS,
)

_log = logging.getLogger(__name__)

_COPIES_WITHIN_S = 60.0


class ProvisionSettings(NatsSettings, Protocol):
    """The settings of provisioning: the server and the size limits."""

    @property
    def replicas(self) -> int | None:
        """The servers that keep each stream; None: what the cluster allows, up to three."""
        ...

    @property
    def lease_ttl_s(self) -> float:
        """The seconds after which a lease expires unless it is renewed."""
        ...

    @property
    def traces_max_bytes(self) -> int:
        """The size limit of the stream TRACES."""
        ...

    @property
    def queries_max_bytes(self) -> int:
        """The size limit of the stream QUERIES."""
        ...

    @property
    def payloads_max_bytes(self) -> int:
        """The size limit of each object store for large facts."""
        ...

    @property
    def artifacts_max_bytes(self) -> int:
        """The size limit of the store of artifacts."""
        ...

    @property
    def uploads_max_bytes(self) -> int:
        """The size limit of the store of uploads."""
        ...


async def provision(settings: ProvisionSettings) -> None:
    """Create or update streams, durables, buckets and object stores; repeated calls are safe.

    Where the cluster has grown since, more of its servers keep them, and a line says so.
    Raises Unreachable, ServerTooOld, NotPermitted, ServerRefused, TooFewServers.
    """
    stream_limits = {"TRACES": settings.traces_max_bytes, "QUERIES": settings.queries_max_bytes}
    store_limits = {ARTIFACTS: settings.artifacts_max_bytes, UPLOADS: settings.uploads_max_bytes}
    admin = Admin(settings, replicas=settings.replicas)
    await admin.open()
    try:
        for stream in STREAMS:
            max_bytes = stream_limits.get(stream.name, stream.max_bytes)
            await admin.make_stream(replace(stream, max_bytes=max_bytes))
        for durable in DURABLES:
            await admin.make_durable(durable)
        for bucket in BUCKETS:
            ttl_s = settings.lease_ttl_s if bucket.name == LEASES else bucket.ttl_s
            await admin.make_bucket(replace(bucket, ttl_s=ttl_s))
        for store in STORES:
            max_bytes = store_limits.get(store.name, settings.payloads_max_bytes)
            await admin.make_store(replace(store, max_bytes=max_bytes))
        await _await_copies(admin)
    finally:
        await admin.close()


async def _await_copies(admin: Admin) -> None:
    """Say which streams have another number of replicas now, and wait until they are copied."""
    for before, now in sorted(set(admin.moved.values())):
        moved = [name for name, counts in admin.moved.items() if counts == (before, now)]
        _log.warning("replicas changed from %d to %d: %s", before, now, ", ".join(moved))
    raised = [name for name, (before, now) in admin.moved.items() if now > before]
    if behind := await admin.await_copies(raised, _COPIES_WITHIN_S):
        _log.warning("still being copied to the other servers: %s", ", ".join(behind))
