"""Processes of their own for frameworks: what they print, line by line."""

import json
import os
import subprocess
import sys
from typing import Any

from tests.flow.clusters import REPOSITORY

ENVIRON = {
    "JAX_PLATFORMS": "cpu",
    "CUDA_VISIBLE_DEVICES": "",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "OMP_NUM_THREADS": "1",
    "PYTHONPATH": str(REPOSITORY),
}


def told_by(module: str, *words: str) -> dict[str, dict[str, Any]]:
    """Return what a module tells of each name, by name; fails with its last words."""
    command = [sys.executable, "-m", f"tests.catalog.{module}", *words]
    done = subprocess.run(
        command, env={**os.environ, **ENVIRON}, capture_output=True, text=True, check=False
    )
    told = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert done.returncode == 0, done.stderr[-2000:]
    return {each.pop("name"): each for each in told}
