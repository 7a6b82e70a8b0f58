"""The demo as a user runs it: right labels, a result, and nothing left running."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli.cluster.identity import Identity, is_alive


@pytest.mark.timeout(400)
def test_the_demo_recognises_its_photos_and_leaves_nothing(data_folder: Path) -> None:
    environ = {k: v for k, v in os.environ.items() if not k.startswith("MLSCOPE_")}
    ended = subprocess.run(
        [sys.executable, "-m", "cli.main", "demo", "--data", str(data_folder)],
        env={**environ, "MLSCOPE_GATEWAY_PORT": "0"},
        capture_output=True,
        text=True,
        timeout=380,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    photos = first_labels(ended.stdout)
    assert len(photos) == 9
    cats = {"tabby", "tiger cat", "Egyptian cat"}
    assert photos["chelsea.jpg"] in cats
    assert photos["panda.jpg"] == "giant panda"
    assert photos["goldfish.jpg"] == "goldfish"
    for title in ("Latency", "Throughput", "The 10 slowest layers", "Where the time went"):
        assert f"\n{title}" in ended.stdout
    assert "/evaluations/" in ended.stdout
    assert still_running(data_folder) == []


def first_labels(text: str) -> dict[str, str]:
    """Return each photo's best label."""
    lines = text.splitlines()
    return {
        line: lines[place + 1].lstrip(" *").split(maxsplit=1)[1]
        for place, line in enumerate(lines)
        if line.endswith(".jpg")
    }


def still_running(folder: Path) -> list[str]:
    state = json.loads((folder / "cluster.json").read_text())
    known = [(each["name"], each["identity"]) for each in state["processes"]]
    known.append(("supervisor", state["supervisor"]))
    return [name for name, identity in known if identity and is_alive(Identity(**identity))]
