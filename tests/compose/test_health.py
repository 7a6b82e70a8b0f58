"""The health check of `nats` in compose.yaml, run by a shell on a folder of the test's own."""

import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
COMPLAINT = (
    "[1] 2026/11/29 23:31:36.900242 [ERR] JetStream failed to store a msg on stream"
    " 'MLSCOPE > A': write /data/A/msgs/1.blk: no space left on device\n"
)
NO_COMPLAINTS = [
    '[ERR] 127.0.0.1:5 - cid:4 - authentication error - User "no space left on device"',
    f'[ERR] 127.0.0.1:5 - cid:4 - "v1:x:no space left on device" - Publish Violation - {COMPLAINT}',
    f"[ERR] 127.0.0.1:5 - cid:4 - Client Error '{COMPLAINT.strip()}'",
    "[WRN] Stream create failed for 'M > C': write /x: no space left on device",
]
FULL, ROOMY = 1000, 1_000_000


class Looks:
    """Looks at a log: each says whether it would have ended the server."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.log = folder / "nats.log"
        self.log.write_text("")
        services: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
        kind, script = services["nats"]["healthcheck"]["test"]
        assert kind == "CMD-SHELL"
        self._script = script.replace("$$", "$").replace("cd /tmp", f"cd {folder}")

    def look(self, room_kib: int = ROOMY) -> bool:
        """Run the check on a disk with so much room."""
        lines = rf"printf 'Filesystem\nx 1 1 {room_kib} 1%% /data\n'"
        answering = "timeout() { echo 'HTTP/1.0 200 OK'; }"
        standing_in = f"df() {{ {lines}; }}\nkill() {{ touch killed; }}\n{answering}\n"
        done = subprocess.run(["sh", "-c", standing_in + self._script], check=False)
        killed = self._folder / "killed"
        was_ended = killed.exists()
        killed.unlink(missing_ok=True)
        assert (done.returncode != 0) == was_ended
        return was_ended

    def complain(self, line: str = COMPLAINT) -> None:
        """Say that there is no room."""
        with self.log.open("a") as log:
            log.write(line)


@pytest.fixture
def looks(tmp_path: Path) -> Looks:
    """Begin with an empty log."""
    return Looks(tmp_path)


def test_a_complaint_of_a_disk_that_was_not_full_is_no_reason(looks: Looks) -> None:
    """Whoever has a key can write a whole line of any text, as the slow consumer's name."""
    assert not looks.look()
    for _ in range(3):
        looks.complain()
        assert not looks.look()


@pytest.mark.parametrize("line", NO_COMPLAINTS)
def test_what_clients_name_is_no_complaint(looks: Looks, line: str) -> None:
    looks.complain(f"[1] 2026/11/29 23:31:36.900242 {line}\n")
    looks.look(FULL)
    assert [looks.look(ROOMY) for _ in range(3)] == [False] * 3


@pytest.mark.parametrize(
    "line",
    [
        "Filestore [A] Critical write error: write /data/A/1.blk: no space left on device",
        "RAFT [S1Nunr6R - S-R3F] Critical write error: write /x: no space left on device",
    ],
)
def test_each_complaint_of_a_full_disk_counts(looks: Looks, line: str) -> None:
    looks.complain(f"[1] 2026/11/29 23:31:36.900242 [ERR] {line}\n")
    looks.look(FULL)
    assert [looks.look(ROOMY) for _ in range(2)] == [False, True]


def test_a_server_whose_disk_is_full_is_left_alone(looks: Looks) -> None:
    for _ in range(3):
        looks.complain()
        assert not looks.look(FULL)


def test_a_complaint_counts_once_there_was_room_at_two_looks(looks: Looks) -> None:
    looks.complain()
    assert not looks.look(FULL)
    assert not looks.look(ROOMY), "the room may be gone again at once"
    assert looks.look(ROOMY)


def test_a_complaint_in_a_log_that_was_put_aside_counts(looks: Looks) -> None:
    looks.complain()
    looks.log.rename(looks.log.with_name("nats.log.2026"))
    looks.log.write_text("")
    assert not looks.look(FULL)
    assert not looks.look()
    assert looks.look()


def test_a_complaint_after_the_log_began_anew_counts(looks: Looks) -> None:
    for _ in range(3):
        looks.complain()
    looks.look(FULL)
    looks.look()
    looks.log.write_text("")
    looks.complain()
    assert looks.look()


@pytest.mark.parametrize(
    "name", ["registry", "scheduler", "agent", "collector", "analyzer", "gateway"]
)
def test_each_service_is_asked_over_the_bus_when_its_answer_is_old(
    name: str, tmp_path: Path
) -> None:
    services: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    check = services[name]["healthcheck"]
    kind, script = check["test"]
    assert (kind, check["timeout"]) == ("CMD-SHELL", "15s"), "longer than a question may take"
    questions, ready, healthy = (tmp_path / file for file in ("questions", "ready", "healthy"))
    asking = f'timeout() {{ echo "$*" >> {questions}; test ! -e {tmp_path}/deaf; }}\n'
    script = asking + script.replace("/tmp/healthy", str(healthy)).replace("/tmp/ready", str(ready))

    def is_healthy() -> bool:
        return subprocess.run(["sh", "-c", script], check=False).returncode == 0

    os.utime(_touched(ready), (time.time() - 100,) * 2)
    assert [is_healthy() for _ in range(3)] == [True] * 3
    assert questions.read_text().splitlines() == [f"14 mlscope health {name} --end"]
    os.utime(healthy, (time.time() - 31,) * 2)
    (tmp_path / "deaf").touch()
    assert not is_healthy(), "an old answer is asked again"
    healthy.touch()
    os.utime(ready, (time.time() + 1,) * 2)
    assert not is_healthy(), "an answer from before a restart does not count"


def _touched(path: Path) -> Path:
    path.touch()
    return path
