"""The host's roof as an agent has it: measured once a start of it, kept in the start's own folder.

Before the worker of the first order that asks for layers is started or told of it, so while the
agent measures no run; a process of its own, which is gone before the order is done.
"""

import asyncio
import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from schemas.level import Level
from schemas.plan import WorkOrder
from services.agent.ceilings import NO_ROOF, Roof
from services.agent.process import worker_environment

FILE = "ceilings.json"
TIMEOUT_S = 60.0
_MOST_REASON = 200


async def roof_for(order: WorkOrder, folder: Path) -> Roof:
    """Return the roof as kept in `folder`, else measured, for an order of layers on a CPU.

    That it could not be measured is kept, too; what can't be kept is measured again.
    """
    levels = (run.level for run in order.session.runs if run.run in order.runs)
    if order.subject.device != "cpu" or max(levels, default=Level.NONE) < Level.FRAMEWORK:
        return NO_ROOF
    kept = folder / FILE
    # A torn file is none.
    with suppress(OSError, KeyError, ValueError, TypeError, AttributeError):
        return Roof.of(json.loads(kept.read_text()))
    found = await measured_apart()
    with suppress(OSError):
        kept.write_text(json.dumps(found.words()))
    return found


async def measured_apart() -> Roof:
    """Return what a process of its own measures; of one that fails, a note."""
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "services.agent.ceilings"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=worker_environment(),
        )
    except OSError as error:
        return _without(str(error))
    try:
        async with asyncio.timeout(TIMEOUT_S):
            written, complaint = await process.communicate()
    except TimeoutError:
        return _without(f"not done in {TIMEOUT_S:g} s")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        lines = complaint.decode(errors="replace").strip().splitlines()
        return _without(lines[-1] if lines else f"ended with {process.returncode}")
    try:
        return Roof.of(json.loads(written))
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        return _without(f"unreadable: {error}")


def _without(reason: str) -> Roof:
    return Roof(note=f"the host's roof could not be measured: {reason[:_MOST_REASON]}")
