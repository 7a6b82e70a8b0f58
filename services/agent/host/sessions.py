"""Workers by session: started when first needed, kept for the next order, closed in the end."""

import logging
from collections.abc import Callable, Mapping

from mlscope.tracing.clock import now_ns
from schemas.plan import WorkOrder
from services.agent.host.containers.session_container import SessionContainer
from services.agent.host.process import NO_VARIABLES, WorkerLimits, WorkerProcess

_log = logging.getLogger(__name__)
SessionKey = tuple[str, str]
"""evaluation, session"""

MOST_OPEN = 2
"""Workers open at a time, one of them working: each holds a model in memory."""
IDLE_S = 300.0


def session_key(order: WorkOrder) -> SessionKey:
    """Return the session an order belongs to."""
    return order.evaluation, order.session.session


class Sessions:
    """The open workers of an agent, by session."""

    def __init__(self, limits: WorkerLimits, clock_ns: Callable[[], int] = now_ns) -> None:
        self._limits = limits
        self._clock_ns = clock_ns
        self._workers: dict[SessionKey, WorkerProcess] = {}
        self._used_ns: dict[SessionKey, int] = {}
        self._started = 0
        #: the session whose order is under way; it is closed only after that
        self.working: SessionKey | None = None
        self._closes_after_order = False

    def __len__(self) -> int:
        return len(self._workers)

    @property
    def waiting_bytes(self) -> int:
        """The bytes of the batches that workers handed over and nobody has taken."""
        return sum(worker.waiting_bytes for worker in self._workers.values())

    def has_living(self, key: SessionKey) -> bool:
        """Tell whether a session has a worker that lives."""
        worker = self._workers.get(key)
        return worker is not None and worker.is_alive

    async def worker(
        self,
        key: SessionKey,
        environment: Mapping[str, str] = NO_VARIABLES,
        container: SessionContainer | None = None,
    ) -> WorkerProcess:
        """Return the worker of the session `key`; start it in `container` if there is none yet.

        It starts with the variables of `environment`, without a container as a plain process.
        Raises OpenFailed, ContainerRefused.
        """
        worker = self._workers.get(key)
        if worker is not None and not worker.is_alive:
            await self.close(key)
            worker = None
        if worker is None:
            while len(self._workers) >= MOST_OPEN:
                await self.close(min(self._workers, key=self._used_ns.__getitem__))
            self._started += 1
            name = f"worker-{self._started}"
            worker = await WorkerProcess.start(name, self._limits, environment, container)
            self._workers[key] = worker
        self._used_ns[key] = self._clock_ns()
        return worker

    async def close(self, key: SessionKey) -> bool:
        """End a session's worker; False when it has none."""
        worker = self._workers.get(key)
        if worker is not None:
            # It stays known until it is closed, so that a cancelled close is repeated later.
            await worker.close()
            self._workers.pop(key, None)
            self._used_ns.pop(key, None)
        return worker is not None

    async def close_when_idle(self, key: SessionKey) -> str:
        """End a session's worker, after its order if one is under way; return '' or a remark."""
        if key == self.working:
            self._closes_after_order = True
            return "after the current order"
        return "" if await self.close(key) else "not open"

    async def end_order(self) -> None:
        """Note that the order under way has ended; close its session if that was asked for."""
        key, self.working = self.working, None
        closes, self._closes_after_order = self._closes_after_order, False
        if key is not None and closes:
            await self.close(key)

    async def close_idle(self) -> None:
        """End workers that had no order for `IDLE_S`, and remove what dead ones left."""
        now = self._clock_ns()
        for key, worker in list(self._workers.items()):
            is_over = now - self._used_ns.get(key, now) > IDLE_S * 1e9 or not worker.is_alive
            if key != self.working and is_over:
                await self.close(key)

    async def kill_excessive(self) -> None:
        """Kill workers without an order that use more than they may: what models left may run on.

        The worker of an order is watched by its `Execution`.
        """
        for key, worker in list(self._workers.items()):
            if key == self.working or not worker.is_alive:
                continue
            excess = await worker.excess()
            if excess is not None and key != self.working and worker.is_alive:
                _log.warning("a worker without an order was killed", extra={"cause": str(excess)})
                worker.kill()

    async def close_all(self) -> None:
        """End every worker."""
        for key in list(self._workers):
            await self.close(key)
