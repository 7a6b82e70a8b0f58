"""The settings that bound the system."""

import pytest

from mlscope.settings import InvalidSetting, Settings


def test_a_worker_s_memory_is_bound_on_request_alone() -> None:
    assert Settings.read({}).worker_memory_bytes == 0
    assert Settings.read({"MLSCOPE_WORKER_MEMORY_BYTES": "2GiB"}).worker_memory_bytes == 2 << 30
    with pytest.raises(InvalidSetting, match="MLSCOPE_WORKER_MEMORY_BYTES"):
        Settings.read({"MLSCOPE_WORKER_MEMORY_BYTES": "00"})


def test_memory_for_prepared_batches_is_a_share_unless_it_is_given() -> None:
    assert Settings.read({}).ahead_bytes is None
    assert Settings.read({"MLSCOPE_AHEAD_BYTES": "0"}).ahead_bytes == 0
    assert Settings.read({"MLSCOPE_AHEAD_BYTES": "2GiB"}).ahead_bytes == 2 << 30


def test_no_request_may_be_larger_than_a_message() -> None:
    assert Settings.read({"MLSCOPE_MAX_REQUEST_BYTES": "8 MiB"}).max_request_bytes == 8 << 20
    with pytest.raises(InvalidSetting, match="MLSCOPE_MAX_REQUEST_BYTES"):
        Settings.read({"MLSCOPE_MAX_REQUEST_BYTES": str((8 << 20) + 1)})
