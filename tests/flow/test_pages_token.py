"""The pages of a local cluster, as another user of its machine finds them, and as its own does."""

import os
import subprocess
import sys
from pathlib import Path
from stat import S_IMODE
from urllib.parse import urlsplit

import httpx

from cli import exits
from cli.cluster.state import read_state
from tests.flow.clusters import Cluster


def test_another_user_of_the_machine_is_refused(cluster: Cluster) -> None:
    for path in ("/api/catalog", "/api/evaluations", "/api/openapi.json"):
        assert cluster.get(path, token=False) == 401
    assert cluster.get("/models", token=False) == 303
    token_file = cluster.folder / "keys" / "gateway.token"
    assert S_IMODE(token_file.stat().st_mode) == 0o600
    for log in (cluster.folder / "logs").iterdir():
        text = log.read_text(errors="replace")
        assert cluster.token() not in text
        assert "login=" not in text


def test_its_own_user_asks_with_the_token_and_opens_pages_by_an_address(cluster: Cluster) -> None:
    assert cluster.get("/api/catalog") == 200
    with httpx.Client(follow_redirects=True) as browser:
        opened = browser.get(cluster.pages_url())
        assert (opened.status_code, urlsplit(str(opened.url)).path) == (200, "/")
        assert browser.get(f"{read_state(cluster.folder).gateway_url}/models").status_code == 200
    shown = next(
        line.split()[1] for line in cluster.mlscope("status").splitlines() if "pages" in line
    )
    assert httpx.get(shown).headers["location"] == "/"
    assert httpx.get(shown).headers["location"] == "/login"


def test_a_gateway_does_not_start_without_a_token(data_folder: Path) -> None:
    environ = {**os.environ, "MLSCOPE_DATA": str(data_folder)}
    command = [sys.executable, "-m", "cli.main", "serve", "gateway"]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == exits.USAGE
    assert "MLSCOPE_GATEWAY_TOKEN_FILE" in done.stderr
