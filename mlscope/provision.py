"""Makes what services bind to on a NATS server: `mlscope provision`, with the provisioner's key."""

from dataclasses import replace
from typing import Protocol

from mlscope.bus.nats.admin import Admin
from mlscope.bus.nats.settings import NatsSettings
from mlscope.bus.streams import (
    ARTIFACTS,
    BUCKETS,
    DURABLES,
    STORES,
    STREAMS,
    UPLOADS,
    Bucket,
    Store,
    Stream,
)


class ProvisionSettings(NatsSettings, Protocol):
    """Where the server is and how large things may grow."""

    @property
    def lease_ttl_s(self) -> float:
        """Seconds after which a lease nobody renewed runs out."""
        ...

    @property
    def traces_max_bytes(self) -> int:
        """The size at which TRACES refuses more."""
        ...

    @property
    def queries_max_bytes(self) -> int:
        """The size at which QUERIES refuses more."""
        ...

    @property
    def payloads_max_bytes(self) -> int:
        """The size at which an object store of large facts refuses more."""
        ...

    @property
    def artifacts_max_bytes(self) -> int:
        """The size at which the store of artifacts refuses more."""
        ...

    @property
    def uploads_max_bytes(self) -> int:
        """The size at which the store of uploads refuses more."""
        ...


async def provision(settings: ProvisionSettings) -> None:
    """Create or update streams, durables, buckets and object stores; again does no harm.

    Raises Unreachable, ServerTooOld, NotPermitted, ServerRefused.
    """
    admin = Admin(settings)
    await admin.open()
    try:
        for stream in _streams(settings):
            await admin.make_stream(stream)
        for durable in DURABLES:
            await admin.make_durable(durable)
        for bucket in _buckets(settings):
            await admin.make_bucket(bucket)
        for store in _stores(settings):
            await admin.make_store(store)
    finally:
        await admin.close()


def _streams(settings: ProvisionSettings) -> list[Stream]:
    sizes = {"TRACES": settings.traces_max_bytes, "QUERIES": settings.queries_max_bytes}
    return [replace(s, max_bytes=sizes.get(s.name, s.max_bytes)) for s in STREAMS]


def _stores(settings: ProvisionSettings) -> list[Store]:
    sizes = {ARTIFACTS: settings.artifacts_max_bytes, UPLOADS: settings.uploads_max_bytes}
    facts = settings.payloads_max_bytes
    return [replace(each, max_bytes=sizes.get(each.name, facts)) for each in STORES]


def _buckets(settings: ProvisionSettings) -> list[Bucket]:
    return [replace(b, ttl_s=settings.lease_ttl_s) if b.ttl_s else b for b in BUCKETS]
