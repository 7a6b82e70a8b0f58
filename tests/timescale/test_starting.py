"""A server that dies at its start is tried again, told of, and not left running."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.timescale.starting import TRIES, DidNotStart, started

_SERVER = """
import os, pathlib, sys, time
lives = pathlib.Path("lives")
count = len(lives.read_text()) if lives.exists() else 0
lives.write_text("x" * (count + 1))
pathlib.Path(f"pid{count}").write_text(str(os.getpid()))
if count < int(sys.argv[1]):
    sys.exit("no memory left, life %d" % count)
print('{"port": %d}' % (7000 + count), flush=True)
time.sleep(600)
"""


def _command(deaths: int) -> Sequence[str]:
    return [sys.executable, "-c", _SERVER, str(deaths)]


def _unready(_: int) -> None:
    raise ConnectionError("refused")


def _is_alive(folder: Path, life: int) -> bool:
    pid = int((folder / f"pid{life}").read_text())
    return Path(f"/proc/{pid}").exists()


def test_a_server_that_dies_at_first_is_tried_again(tmp_path: Path) -> None:
    seen: list[int] = []
    with started(_command(TRIES - 1), tmp_path, tmp_path / "stderr", seen.append) as port:
        assert seen == [port] == [7000 + TRIES - 1]
        assert _is_alive(tmp_path, TRIES - 1)
    assert not _is_alive(tmp_path, TRIES - 1)


def test_one_that_always_dies_tells_why(tmp_path: Path) -> None:
    starting = started(_command(99), tmp_path, tmp_path / "stderr", print)
    with pytest.raises(DidNotStart, match=r"ended with 1:(.|\n)*no memory left, life 2"), starting:
        pass


def test_one_that_never_gets_ready_is_ended_each_time(tmp_path: Path) -> None:
    starting = started(_command(0), tmp_path, tmp_path / "stderr", _unready)
    with pytest.raises(DidNotStart, match="nothing on stderr"), starting:
        pass
    assert [_is_alive(tmp_path, life) for life in range(TRIES)] == [False] * TRIES


def test_what_fails_in_a_test_is_not_tried_again(tmp_path: Path) -> None:
    starting = started(_command(0), tmp_path, tmp_path / "stderr", lambda _: None)
    with pytest.raises(subprocess.SubprocessError), starting:
        raise subprocess.SubprocessError
    assert (tmp_path / "lives").read_text() == "x"
    assert not _is_alive(tmp_path, 0)


def test_the_database_ends_with_whoever_started_it(timescale_url: str) -> None:
    folder = Path(__file__).parent
    with subprocess.Popen(
        ["node", "server.mjs"], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as server:
        assert server.stdin is not None
        server.stdin.close()
        assert server.wait() == 0
