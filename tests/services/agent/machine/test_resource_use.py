"""What a process and its children use, by the kernel's own counts."""

import multiprocessing
import time

import pytest

from services.agent.machine.resource_use import ResourceMeter, gpu_number_of


def burn(seconds: float) -> None:
    """Use one core, in a child of a child."""
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        pass


def burn_below(seconds: float) -> None:
    """Have a child use one core."""
    child = multiprocessing.get_context("fork").Process(target=burn, args=(seconds,))
    child.start()
    child.join()


def test_cpu_of_children_counts() -> None:
    parent = multiprocessing.get_context("fork").Process(target=burn_below, args=(1.5,))
    parent.start()
    assert parent.pid is not None
    try:
        meter = ResourceMeter(parent.pid, None)
        time.sleep(0.5)
        use = meter.read()
        meter.close()
    finally:
        parent.kill()
        parent.join()
    assert use.cpu_cores is not None
    assert use.cpu_cores > 0.02
    assert (use.gpu_share, use.power_w) == (None, None)


def test_a_process_that_is_gone_uses_nothing_known() -> None:
    meter = ResourceMeter(2**22 + 1, None)
    assert meter.read().cpu_cores is None


@pytest.mark.parametrize(
    ("device", "visible", "number"),
    [
        ("cpu", None, None),
        ("cuda", None, 0),
        ("cuda:1", None, 1),
        ("cuda:1", "3,5", 5),
        ("cuda:2", "3,5", None),
        ("cuda", "GPU-8f6a", None),
    ],
)
def test_frameworks_count_among_visible_gpus(
    device: str, visible: str | None, number: int | None
) -> None:
    assert gpu_number_of(device, visible) == number
