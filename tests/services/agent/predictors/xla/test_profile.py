"""A block's profile: calls are timed without the warm-up, and no file is left behind."""

from pathlib import Path

import pytest

from services.agent.predictors import Tensors
from services.agent.predictors.xla.profile import ProfiledBlock


def echoed(inputs: Tensors) -> Tensors:
    """Return what came."""
    return inputs


def test_a_profile_is_lent_and_its_folder_removed(tmp_path: Path) -> None:
    block = ProfiledBlock(echoed, [{}, {}], tmp_path)
    assert block.predict({}) == {}
    ((began_ns, ended_ns),) = block.calls
    assert 0 < began_ns <= ended_ns
    file = Path(block.folder, "host.xplane.pb")
    file.touch()
    with block.written() as (path, offset_ns):
        assert (path, path.exists(), offset_ns > 0) == (file, True, True)
    assert list(tmp_path.iterdir()) == []
    assert "on mlscope's clock to within" in block.notes[-1]


def test_a_profiler_that_wrote_nothing_is_an_error(tmp_path: Path) -> None:
    with (
        pytest.raises(OSError, match="wrote no file"),
        ProfiledBlock(echoed, [], tmp_path).written(),
    ):
        raise AssertionError("there is no file to read")
    assert list(tmp_path.iterdir()) == []
