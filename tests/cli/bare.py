"""`mlscope …` on a machine that has a few packages alone."""

import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from importlib.metadata import Distribution, PackageNotFoundError
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
DEPENDENCIES = ("msgpack", "numpy", "packaging", "pydantic", "pyyaml")
"""What mlscope needs without extras."""


def run_bare(
    folder: Path, distributions: Iterable[str], *words: str
) -> "subprocess.CompletedProcess[str]":
    """Run a command with some distributions and what they need; `folder` is where they lie."""
    folder.mkdir()
    for name in {"mlscope", *with_needs(distributions)}:
        link_into(folder, Distribution.from_name(name))
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MLSCOPE_")}
    environ = {**kept, "PYTHONPATH": f"{ROOT}:{folder}", "MLSCOPE_DATA": str(folder / "data")}
    # Without `site` Python knows no packages but those on its path.
    command = [sys.executable, "-S", "-m", "cli.main", *words]
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=False)


def link_into(folder: Path, distribution: Distribution) -> None:
    """Link the files of an installed distribution into a folder."""
    names = {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}
    for name in names:
        target = Path(str(distribution.locate_file(name)))
        if target.exists() and not (folder / name).exists():
            (folder / name).symlink_to(target)


def with_needs(names: Iterable[str]) -> set[str]:
    """Return distributions with what they need, as far as it is installed."""
    kept: set[str] = set()
    pending = list(names)
    while pending:
        name = canonicalize_name(pending.pop())
        if name not in kept and (needs := needs_of(name)) is not None:
            kept.add(name)
            pending += needs
    return kept


def needs_of(name: str) -> Sequence[str] | None:
    """Return what a distribution needs without extras; None where it is not installed."""
    try:
        needs = map(Requirement, Distribution.from_name(name).requires or [])
    except PackageNotFoundError:
        return None
    plain = {"extra": ""}
    return [need.name for need in needs if need.marker is None or need.marker.evaluate(plain)]
