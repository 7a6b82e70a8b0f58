"""A real TimescaleDB without a container: PGlite with the extension, by npm; else a loud skip."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.analyzer.store import migrate as migrate_analyzer
from services.collector.store import migrate

_HERE = Path(__file__).parent


def _install() -> None:
    """Install the pinned package by its lock file, or skip."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("TIMESCALEDB NOT TESTED: node and npm are not installed")
    if (_HERE / "node_modules" / ".package-lock.json").exists():
        return
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    try:
        subprocess.run(command, cwd=_HERE, check=True, capture_output=True, timeout=100)
    except (subprocess.SubprocessError, OSError) as error:
        pytest.skip(f"TIMESCALEDB NOT TESTED: npm ci failed: {error}")


@pytest.fixture(scope="session")
def timescale_url() -> Iterator[str]:
    """Run a migrated TimescaleDB; its one backend is shared, so tests take runs of their own."""
    _install()
    server = subprocess.Popen(
        ["node", "server.mjs"], cwd=_HERE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        assert server.stdout is not None
        port = json.loads(server.stdout.readline())["port"]
        url = f"postgresql://postgres@127.0.0.1:{port}/postgres"
        assert migrate(url) == "timescaledb"
        assert migrate_analyzer(url) == "timescaledb"
        yield url
    finally:
        server.terminate()
        server.communicate(timeout=10)
