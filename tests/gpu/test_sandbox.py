"""Models on a GPU in the sandbox: CUDA starts there, and no other file is reached."""

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from schemas.plan import WorkOrder  # noqa: E402
from schemas.run import RunFailed  # noqa: E402
from services.agent.machine.landlock import landlock_version  # noqa: E402
from tests.services.agent.builders import carried_out  # noqa: E402
from tests.services.agent.worker.test_sandbox import Double, Spy, order_of  # noqa: E402

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="NO GPU: PyTorch sees none"),
    pytest.mark.skipif(not landlock_version(), reason="this kernel has no Landlock"),
    pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning"),
]


def on_gpu(module: Any, manifests: Path) -> WorkOrder:
    order = order_of(module, manifests)
    subject = order.subject.model_copy(update={"device": "gpu", "options": {}})
    return order.model_copy(update={"subject": subject})


async def test_cuda_starts_in_the_sandbox(tmp_path: Path) -> None:
    order = on_gpu(Double(), tmp_path / "manifests")
    said = await carried_out(order, tmp_path / "w", manifests=tmp_path / "manifests")
    assert said.completed().tally.queries == 1
    assert said.completed().conditions.device == "gpu"


@pytest.mark.parametrize("shared", [False, True], ids=["read", "write"])
async def test_a_model_on_a_gpu_reaches_no_key(tmp_path: Path, shared: bool) -> None:
    secret = tmp_path / "keys" / "scheduler.nk"
    secret.parent.mkdir()
    secret.write_bytes(b"SEED")
    order = on_gpu(Spy(str(secret), shared), tmp_path / "manifests")
    said = await carried_out(order, tmp_path / "w", manifests=tmp_path / "manifests")
    (failed,) = said.of(RunFailed)
    assert "Permission denied" in failed.message
    assert secret.read_bytes() == b"SEED"
