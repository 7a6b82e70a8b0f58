"""`python -m tools.catalog.releases`: which release of timm first had each of its models.

The wheel of every release that the extra `vision` allows is downloaded from pip's index, and the
functions that it registers as models are read from its sources; nothing is imported. Written are
the models that the oldest of these releases lacks, with the release from which on they are there.
"""

import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Set
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory

from packaging.requirements import Requirement
from packaging.version import Version

FILE = Path(__file__).parent / "timm_releases.json"
_REGISTERED = re.compile(r"^@register_model\s*\ndef (\w+)\(", re.MULTILINE)


def first_releases(models: Mapping[str, Set[str]]) -> dict[str, str]:
    """Return the first release of each model that the oldest release lacks and the newest has.

    `models` has the models of each release, the oldest first. A model that went and came back
    counts from its return on.
    """
    firsts: dict[str, str] = {}
    for release, names in models.items():
        firsts = {name: firsts.get(name, release) for name in sorted(names)}
    oldest = next(iter(models))
    return {name: release for name, release in firsts.items() if release != oldest}


def models_in(wheel: Path) -> frozenset[str]:
    """Return the models that timm's `wheel` registers."""
    with zipfile.ZipFile(wheel) as archive:
        sources = [name for name in archive.namelist() if name.startswith("timm/models/")]
        texts = (archive.read(name).decode("utf-8") for name in sources if name.endswith(".py"))
        return frozenset(name for text in texts for name in _REGISTERED.findall(text))


def releases() -> list[str]:
    """Return the releases of timm that mlscope's extra `vision` allows, the oldest first."""
    needs = map(Requirement, metadata.requires("mlscope") or ())
    allowed = next(need for need in needs if need.name == "timm")
    answer = _pip("index", "versions", "timm")
    versions = next(line for line in answer.splitlines() if line.startswith("Available versions: "))
    names = versions.partition(": ")[2].split(", ")
    return sorted(allowed.specifier.filter(names), key=Version)


def _pip(*arguments: str) -> str:
    command = [sys.executable, "-m", "pip", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def main() -> None:
    """Write the file of first releases anew."""
    models: dict[str, frozenset[str]] = {}
    for release in releases():
        with TemporaryDirectory() as folder:
            _pip("download", "--no-deps", "--quiet", "--dest", folder, f"timm=={release}")
            (wheel,) = Path(folder).glob("*.whl")
            models[release] = models_in(wheel)
        print(f"timm {release}: {len(models[release])} models", file=sys.stderr)
    FILE.write_text(f"{json.dumps(first_releases(models), indent=1, sort_keys=True)}\n", "utf-8")


if __name__ == "__main__":
    main()
