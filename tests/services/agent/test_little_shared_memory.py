"""An agent whose /dev/shm is smaller than its worker's ring, as in some containers."""

import shutil
import subprocess
from pathlib import Path

import pytest

from schemas.encoding.codec import decode
from schemas.run import RunCompleted
from services.agent.host.offline import read_bundle
from tests.services.agent.builders import MANIFESTS
from tests.services.agent.test_killed import streaming_agent

MOUNTING = 'mount -t tmpfs -o size=8m tmpfs /dev/shm && exec "$@"'


@pytest.fixture
def with_little_memory() -> list[str]:
    """Return how a command begins that has 8 MiB of shared memory, in a mount namespace."""
    if shutil.which("unshare") is None:
        pytest.skip("no program makes a mount namespace here")
    command = ["unshare", "--mount", "sh", "-c", MOUNTING, "sh"]
    tried = subprocess.run([*command, "true"], capture_output=True, text=True)
    if tried.returncode:
        pytest.skip(f"this user may not mount: {tried.stderr.strip()}")
    return command


def test_a_ring_needs_no_shared_memory(with_little_memory: list[str], tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    command = [*with_little_memory, *streaming_agent(tmp_path, bundle, 6)]
    subprocess.run(command, cwd=MANIFESTS.parent, check=True, capture_output=True)
    facts = [decode(body)[1] for body in read_bundle(bundle)]
    (outcome,) = [fact for fact in facts if isinstance(fact, RunCompleted)]
    assert outcome.conditions.prepare_processes > 0
    assert outcome.tally.queries == 6
    assert not [caveat for caveat in outcome.caveats if "/dev/shm" in caveat]
