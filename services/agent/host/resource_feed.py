"""Publishes a worker's use of resources about once a second for live viewers; stores nothing.

The worker has no part in it: this process reads `/proc` and NVML in a thread.
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mlscope.bus.bus import Bus
from mlscope.bus.errors import BusError
from schemas.encoding.codec import encode_body
from schemas.live.resources import ResourcesUsed
from schemas.plan import WorkOrder
from schemas.subjects import resources_subject
from services.agent.host.execution import Execution
from services.agent.machine.resource_use import ResourceMeter, gpu_number_of

PERIOD_S = 1.0

_log = logging.getLogger(__name__)


def meter_of(order: WorkOrder, pid: int) -> ResourceMeter:
    """Return the meter of the worker, process `pid`, that does an `order`."""
    device = str(order.subject.options.get("device") or order.subject.device)
    return ResourceMeter(pid, gpu_number_of(device, os.environ.get("CUDA_VISIBLE_DEVICES")))


@asynccontextmanager
async def publishing_resources(
    bus: Bus, execution: Execution, meter: ResourceMeter, period_s: float = PERIOD_S
) -> AsyncIterator[None]:
    """Publish readings of `meter` on `bus` every `period_s` while an `execution` goes on."""
    publishing = asyncio.create_task(_publish(bus, execution, meter, period_s))
    try:
        yield
    finally:
        publishing.cancel()
        try:
            # Not awaited by itself: that would take a cancellation of this task for the other's.
            await asyncio.wait([publishing])
            if not publishing.cancelled() and (error := publishing.exception()) is not None:
                _log.warning("the feed of what is used ended: %s", error)
        finally:
            meter.close()


async def _publish(bus: Bus, execution: Execution, meter: ResourceMeter, period_s: float) -> None:
    while True:
        await asyncio.sleep(period_s)
        use = await asyncio.to_thread(meter.read)
        run = execution.current_run
        if run is None:
            continue
        order = execution.order
        message = ResourcesUsed(
            evaluation=order.evaluation,
            run=run,
            attempt=order.attempt,
            agent=order.agent,
            cpu_cores=use.cpu_cores,
            gpu_share=use.gpu_share,
            power_w=use.power_w,
        )
        try:
            await bus.publish_live(resources_subject(message), encode_body(message))
        except BusError as error:
            _log.debug("resources not published: %s", error)
