"""A report that Nsight Systems makes here of a small PyTorch program, exported to SQLite.

`MLSCOPE_GPU_BUNDLES` names a folder that keeps it: a recording for the importer.
"""

import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

LEAST = {
    "CUPTI_ACTIVITY_KIND_KERNEL": 9,
    "CUPTI_ACTIVITY_KIND_RUNTIME": 9,
    "NVTX_EVENTS": 6,
}
"""Rows of the tables that the importer reads."""
PROGRAM = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8)).cuda()
x = torch.rand(4, 64, device="cuda")
with torch.inference_mode():
    model(x)
    for _ in range(3):
        with torch.cuda.nvtx.range("query"), torch.cuda.nvtx.range("predict"):
            model(x)
            torch.cuda.synchronize()
"""

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="NO GPU: PyTorch sees none"),
    pytest.mark.skipif(shutil.which("nsys") is None, reason="nsys (Nsight Systems) is not here"),
    pytest.mark.timeout(180),
]


def test_a_program_is_exported_with_calls_kernels_and_ranges(tmp_path: Path) -> None:
    kept = os.environ.get("MLSCOPE_GPU_BUNDLES")
    folder = Path(kept) if kept else tmp_path
    program, out = tmp_path / "program.py", folder / "tiny"
    folder.mkdir(parents=True, exist_ok=True)
    program.write_text(PROGRAM)
    options = ("--trace", "cuda,nvtx", "--export", "sqlite", "--force-overwrite", "true")
    command = ["nsys", "profile", *options, "--output", str(out), sys.executable, str(program)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    with sqlite3.connect(out.with_suffix(".sqlite")) as report:
        for table, least in LEAST.items():
            (count,) = report.execute(f"SELECT count(*) FROM {table}").fetchone()
            assert count >= least, table
