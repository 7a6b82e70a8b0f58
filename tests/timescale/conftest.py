"""A real TimescaleDB without a container: PGlite with the extension, by npm; else a loud skip."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.analyzer.store import migrate as migrate_analyzer
from services.collector.store import migrate
from tests.timescale.installing import install
from tests.timescale.starting import started

_HERE = Path(__file__).parent


def _install() -> None:
    """Install the pinned package by its lock file, or skip."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("TIMESCALEDB NOT TESTED: node and npm are not installed")
    try:
        install(_HERE)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"TIMESCALEDB NOT TESTED: npm ci failed: {error.stderr[-500:]!r}")
    except (subprocess.SubprocessError, OSError) as error:
        pytest.skip(f"TIMESCALEDB NOT TESTED: npm ci failed: {error}")


def _url(port: int) -> str:
    return f"postgresql://postgres@127.0.0.1:{port}/postgres"


def _migrate(port: int) -> None:
    assert migrate(_url(port)) == "timescaledb"
    assert migrate_analyzer(_url(port)) == "timescaledb"


@pytest.fixture(scope="package")
def timescale_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run a migrated TimescaleDB; its one backend is shared, so tests take runs of their own."""
    _install()
    log = tmp_path_factory.mktemp("timescale") / "stderr"
    with started(["node", "server.mjs"], _HERE, log, _migrate) as port:
        yield _url(port)
