"""Every code block of quickstart and guides runs, in the order of a reader, on one cluster."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.cluster.state import read_state
from tests.docs.pages import REPOSITORY, CodeBlock, runnable_blocks
from tests.ending import stopped_in_the_end
from tests.places import lent_folder

_DOCUMENTED_URL = "nats://127.0.0.1:4222"


def run_block(block: CodeBlock, folder: Path) -> None:
    """Run a block as its reader would, in `folder`; a failure shows the page and the output."""
    text = block.text
    if _DOCUMENTED_URL in text:
        text = text.replace(_DOCUMENTED_URL, read_state(folder / ".mlscope").nats_url)
    command = ["bash", "-euo", "pipefail", "-c", text]
    if block.language == "python":
        command = [sys.executable, "-c", text]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(REPOSITORY)}
    environment["MLSCOPE_GATEWAY_PORT"] = "0"
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{block.page}:\n{text}\n{done.stdout}\n{done.stderr}"


@pytest.fixture
def reader_folder() -> Iterator[Path]:
    """Lend a folder with the shipped manifests; a cluster that was started in it is stopped."""
    with lent_folder("docs") as folder, stopped_in_the_end(folder / ".mlscope", folder):
        shutil.copytree(REPOSITORY / "manifests", folder / "manifests")
        yield folder


@pytest.mark.long
@pytest.mark.timeout(900)
def test_what_a_reader_runs_works(reader_folder: Path) -> None:
    blocks = runnable_blocks()
    assert len(blocks) > 10
    for block in blocks:
        run_block(block, reader_folder)
