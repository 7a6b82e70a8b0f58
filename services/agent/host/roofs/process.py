"""Measures a device's roof in a process of its own, and tells whether the device is quiet."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Sequence

from mlscope.tasks import end_process
from services.agent.host.process import worker_environment
from services.agent.host.roofs.devices import MeasuredDevice
from services.agent.machine.cores import regain_cores
from services.agent.machine.noise import noise_between, others_share, read_machine
from services.agent.machine.roofline.ceilings import MOST_OTHERS, Roof
from services.agent.machine.roofline.gpu_watch import gpu_is_quiet
from services.agent.predictors.shapes import reasons_in

TIMEOUT_S = 90.0
_QUIET_S = 0.5
_MOST_REASON_CHARACTERS = 200


async def device_is_quiet(device: MeasuredDevice) -> bool:
    """Return whether others leave a device alone now; True where that is unknown."""
    if device.kind == "gpu":
        return await asyncio.to_thread(gpu_is_quiet, device.device)
    before = read_machine()
    await asyncio.sleep(_QUIET_S)
    share_of_others = others_share(noise_between(before, read_machine()))
    return share_of_others is None or share_of_others <= MOST_OTHERS


async def measure_in_process(device: MeasuredDevice, command: Sequence[str]) -> Roof:
    """Return the roof that a module measures in a process of its own; with a note if it fails."""
    # Without this, JAX reserves three quarters of a GPU's memory, free or not.
    environment = worker_environment({"XLA_PYTHON_CLIENT_PREALLOCATE": "false"})
    regain_cores()
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            "-m",
            *command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
        )
    except OSError as error:
        return failed_roof(device, str(error))
    try:
        async with asyncio.timeout(TIMEOUT_S):
            output, errors = await process.communicate()
    except TimeoutError:
        return failed_roof(device, f"not finished within {TIMEOUT_S:g} s")
    finally:
        await end_process(process)
    if process.returncode != 0:
        lines = reasons_in(errors.decode(errors="replace"))
        return failed_roof(device, lines[-1] if lines else f"ended with {process.returncode}")
    try:
        return Roof.from_dict(json.loads(output))
    except (KeyError, ValueError, TypeError) as error:
        return failed_roof(device, f"unreadable: {error}")


def failed_roof(device: MeasuredDevice, reason: str) -> Roof:
    """Return a roof without figures: a device could not be measured for a `reason`."""
    subject = "the host's roof" if device.kind == "cpu" else "the GPU's roof"
    note = f"{subject} could not be measured: {reason[:_MOST_REASON_CHARACTERS]}"
    return Roof(device.kind, device.name, note=note)
