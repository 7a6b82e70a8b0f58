"""The example packages, installed by pip as their users would."""

import subprocess
import sys
from pathlib import Path

FPGA_PREDICTOR = Path(__file__).parent / "fpga_predictor"
_FILES = ("pyproject.toml", "README.md", "fpga_predictor.py")


def install_fpga_predictor(folder: Path) -> None:
    """Install the package into a `folder`, from a copy beside it: building writes there."""
    source = folder.with_name(f"{folder.name}-source")
    source.mkdir()
    for name in _FILES:
        (source / name).write_bytes((FPGA_PREDICTOR / name).read_bytes())
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    options = ["--no-index", "--no-deps", "--no-build-isolation", "--target", str(folder)]
    subprocess.run([*pip, *options, str(source)], check=True, capture_output=True)
