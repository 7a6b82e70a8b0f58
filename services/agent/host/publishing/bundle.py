"""A bundle as the sink of an agent's facts where there is no broker (I/O)."""

from mlscope.exchange.bundle import BundleWriter
from schemas.batch import Batch
from services.agent.host.publishing.dropped_batches import DroppedBatches


class BundleSink(BundleWriter):
    """A bundle being written: a file has room for every batch, or writing to it fails."""

    @property
    def is_full(self) -> bool:
        """Return False: no batch ever waits for room."""
        return False

    async def put_batch(self, fact: Batch, *, id: str, cause: str) -> bool:  # noqa: A002
        """Write the batch `fact` under its `id`, with the `cause` of its attempt."""
        await self.put(fact, id=id, cause=cause)
        return True

    async def settle(self, cause: str) -> DroppedBatches:  # noqa: ARG002
        """Return the dropped batches: none ever are."""
        return DroppedBatches()

    def drop_refused(self, cause: str) -> None:
        """Do nothing: no batch is refused."""
