"""A cluster starts from no folder, and nobody follows a state, that another user has prepared."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.cluster.errors import ForeignFolder, ForeignState, NotUp
from cli.cluster.state import make_own, read_state, write_state
from cli.main import main
from mlscope.client.connection import find_settings
from mlscope.client.errors import ForeignCluster
from tests.cli.cluster.test_state import a_state

NOBODY = 65534
pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="only root gives files to others")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a data folder that is yet to be made."""
    return tmp_path / "data"


def plant_key(folder: Path) -> None:
    """Have another user put a key into a folder of ours."""
    (folder / "keys" / "people").mkdir(parents=True)
    key = folder / "keys" / "people" / "ada.nk"
    key.write_text("known")
    os.chown(key, NOBODY, NOBODY)


def plant_folder(folder: Path) -> None:
    """Have another user make the folder."""
    folder.mkdir()
    os.chown(folder, NOBODY, NOBODY)


def plant_link(folder: Path) -> None:
    """Have another user put a link in place of the keys."""
    folder.mkdir()
    (folder / "keys").mkdir()
    (folder / "keys" / "gateway.token").symlink_to("/etc/hostname")
    os.lchown(folder / "keys" / "gateway.token", NOBODY, NOBODY)


@pytest.mark.parametrize("plant", [plant_key, plant_folder, plant_link])
@pytest.mark.parametrize("words", [["up"], ["up", "--detach"]])
def test_a_cluster_takes_no_folder_of_another_user(
    folder: Path,
    plant: Callable[[Path], None],
    words: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    plant(folder)
    assert main([*words, "--data", str(folder)]) == 1
    error = capsys.readouterr().err
    assert f"owner: uid {NOBODY}" in error
    assert "another user put there" in error
    assert not (folder / "cluster.json").exists()


def test_a_folder_of_ours_is_closed_to_the_writing_of_others(folder: Path) -> None:
    make_own(folder)
    folder.chmod(0o777)
    make_own(folder)
    assert folder.stat().st_mode & 0o777 == 0o755
    (folder / "keys").mkdir(mode=0o700)
    make_own(folder)


def test_keys_in_a_folder_of_another_user_are_not_made(folder: Path) -> None:
    plant_folder(folder)
    with pytest.raises(ForeignFolder):
        make_own(folder)
    assert list(folder.iterdir()) == []


def test_nobody_follows_the_state_of_another_user(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_own(folder)
    write_state(folder, a_state(""))
    assert read_state(folder).nats_url == a_state("").nats_url
    os.chown(folder / "cluster.json", NOBODY, NOBODY)
    with pytest.raises(ForeignState, match=f"uid {NOBODY}"):
        read_state(folder)
    assert issubclass(ForeignState, NotUp)
    assert main(["status", "--data", str(folder)]) == 3
    assert "Another user wrote" in capsys.readouterr().err
    state = {"phase": "running", "nats_url": "nats://h:1", "requester_seed_file": "/s"}
    (folder / "cluster.json").write_text(json.dumps(state))
    with pytest.raises(ForeignCluster, match=f"another user's .uid {NOBODY}."):
        find_settings({}, data=str(folder))


def test_commands_log_in_to_a_broker_of_the_cluster_s_own_user(folder: Path) -> None:
    make_own(folder)
    state = {"phase": "running", "nats_url": "nats://h:1", "requester_seed_file": "/s"}
    (folder / "cluster.json").write_text(json.dumps(state))
    assert find_settings({}, data=str(folder)).broker_uid == os.getuid()
