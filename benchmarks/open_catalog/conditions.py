"""What the table was made with: the machine, the versions and the commit."""

import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path

from services.agent.host.announcing import installed_runtimes
from services.agent.machine.hardware import this_machine
from services.agent.machine.packages import package_fact


def conditions_here(device: str, weights: str) -> str:
    """Return a paragraph on this machine, for models on a `device` with these `weights`."""
    machine = this_machine()
    versions = [f"{own.framework} {own.version}" for own in installed_runtimes((), ())]
    versions += [f"{name} {package_fact(name).version}" for name in ("torchvision", "timm")]
    gpus = [own.name for own in machine.accelerators if own.kind == "gpu"]
    places = ", ".join(gpus) if device == "gpu" and gpus else machine.cpu_model
    memory_gb = machine.memory_bytes / 1e9
    return (
        f"Device: {device} ({places}); {machine.cores} cores, {memory_gb:.0f} GB; "
        f"weights of models that a builder makes: {weights}. Python {platform.python_version()}, "
        f"{', '.join(versions)}. Commit {_commit()}, {datetime.now(UTC):%Y-%m-%d}."
    )


def _commit() -> str:
    command = ["git", "rev-parse", "--short", "HEAD"]
    try:
        ended = subprocess.run(
            command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return ended.stdout.strip()
