"""A cluster starts from no folder, and nobody follows a state, that another user has prepared."""

import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
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


@pytest.fixture(autouse=True)
def _restored_logging() -> Iterator[None]:
    """Take back the handlers that `main` adds: they write to the test's own stderr."""
    handlers, level = logging.root.handlers[:], logging.root.level
    yield
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)


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


def test_folders_that_a_group_could_write_are_closed_at_every_depth(folder: Path) -> None:
    """The group has put nothing there yet; a link in a log's place would lead to another file."""
    make_own(folder)
    shared = [folder / "logs", folder / "cache", folder / "cache" / "sha256", folder / "nats"]
    for path in shared:
        path.mkdir()
        path.chmod(0o2775)
    make_own(folder)
    assert {path.stat().st_mode & 0o7777 for path in shared} == {0o2755}


@pytest.mark.parametrize("place", ["logs/gateway.log", "cache/sha256/ab", "run/agent.ready"])
def test_what_another_user_has_put_at_any_place_is_refused(folder: Path, place: str) -> None:
    make_own(folder)
    planted = folder / place
    planted.parent.mkdir(parents=True)
    planted.symlink_to("/etc/hostname")
    os.lchown(planted, NOBODY, NOBODY)
    with pytest.raises(ForeignFolder, match=planted.name):
        make_own(folder)


def test_a_folder_of_root_s_alone_is_passed_by() -> None:
    """As `lost+found` is, where the data folder is a disk of its own."""
    folder = Path(tempfile.mkdtemp(prefix="mlscope-test-"))
    os.chown(folder, NOBODY, NOBODY)
    (folder / "lost+found").mkdir(mode=0o700)
    script = "import sys; from pathlib import Path; from cli.cluster.state import make_own; "
    ended = subprocess.run(
        [sys.executable, "-c", f"{script}make_own(Path(sys.argv[1]))", str(folder)],
        user=NOBODY,
        group=NOBODY,
        capture_output=True,
        text=True,
        check=False,
    )
    shutil.rmtree(folder)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_files_of_workers_and_of_the_database_are_not_foreign(folder: Path) -> None:
    make_own(folder)
    for name in ("agents", "postgres"):
        (folder / name / "data").mkdir(parents=True)
        os.chown(folder / name / "data", NOBODY, NOBODY)
    make_own(folder)


def test_nothing_that_a_cluster_makes_is_its_group_s_to_write(
    folder: Path, restored_umask: None
) -> None:
    os.umask(0o002)
    make_own(folder)
    (folder / "logs").mkdir()
    assert folder.stat().st_mode & 0o022 == (folder / "logs").stat().st_mode & 0o022 == 0


@pytest.fixture
def restored_umask() -> Iterator[None]:
    """Set the umask back."""
    before = os.umask(0o022)
    yield
    os.umask(before)


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
