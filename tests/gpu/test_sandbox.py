"""Models on a GPU in the sandbox: CUDA starts there, and no other file is reached."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from mlscope.settings import Settings  # noqa: E402
from services.agent.link.allowances import DEFAULT_ALLOWANCES  # noqa: E402
from services.agent.link.bounds import Bounds  # noqa: E402
from services.agent.machine.landlock import landlock_version  # noqa: E402
from services.agent.worker.sandbox.own_user import can_change_user  # noqa: E402
from tests.services.agent.builders import carried_out  # noqa: E402
from tests.services.agent.worker.sandbox.test_sandbox import Double, order_of, spied  # noqa: E402

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="NO GPU: PyTorch sees none"),
    pytest.mark.skipif(not landlock_version(), reason="this kernel has no Landlock"),
    pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning"),
]


ON_GPU: Mapping[str, Any] = {"device": "gpu", "options": {}}


@pytest.mark.parametrize("user", ["auto", "own", "agent"])
async def test_cuda_starts_in_the_sandbox(tmp_path: Path, user: str) -> None:
    """For root, `auto` is a user without an account, who keeps the capability for counters.

    What CUDA starts and writes is within the bounds of an agent without settings.
    """
    order = order_of(Double(), tmp_path / "manifests", **ON_GPU)
    allowances = replace(DEFAULT_ALLOWANCES, worker_user=user)
    users: set[int] = set()
    watching = asyncio.create_task(watch_users(users))
    manifests, bounds = tmp_path / "manifests", Bounds.of(Settings.read({}))
    said = await carried_out(
        order, tmp_path / "w", manifests=manifests, allowances=allowances, bounds=bounds
    )
    watching.cancel()
    assert bool(users) == (user != "agent" and can_change_user())
    assert said.completed().tally.queries == 1
    assert said.completed().conditions.device == "gpu"
    assert not [note for note in said.completed().caveats if "ran as root" in note]


async def watch_users(users: set[int]) -> None:
    """Gather the users of processes that have one of their own, until it is cancelled."""
    while True:
        users |= own_users()
        await asyncio.sleep(0.05)


def own_users() -> set[int]:
    """Return the users of the processes that have one of their own now."""
    users = set()
    for status in Path("/proc").glob("[0-9]*/status"):
        with suppress(OSError):
            uid = int(status.read_text().split("Uid:")[1].split()[1])
            users |= {uid} & {0x78000000 + int(status.parent.name)}
    return users


@pytest.mark.parametrize("shared", [False, True], ids=["read", "write"])
async def test_a_model_on_a_gpu_reaches_no_key(tmp_path: Path, shared: bool) -> None:
    message = await spied(tmp_path, "keys/scheduler.nk", shared=shared, **ON_GPU)
    assert "Permission denied" in message
