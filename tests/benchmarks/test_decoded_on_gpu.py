"""Decoding on the GPU: the bound that the benchmark divides by."""

import pytest

from benchmarks.decoded_on_gpu import bound


def test_processes_work_beside_the_model_and_one_device_in_turn() -> None:
    assert bound("host", 3000, 6000) == 3000
    assert bound("device", 3000, 6000) == pytest.approx(2000)
