"""A TensorFlow model that writes a file, in a real worker: the file is not written.

`make test` has models of PyTorch in `test_sandbox.py`, in the same sandbox.
"""

import hashlib
from pathlib import Path

import pytest

from schemas.manifest import Assets, FrameworkNeed
from schemas.plan import WorkOrder
from schemas.run import RunFailed
from services.agent.machine.landlock import landlock_version
from tests.importing_later import imported_later
from tests.services.agent.builders import a_run, a_subject, an_order, carried_out

tf = imported_later("tensorflow")
needs_landlock = pytest.mark.skipif(not landlock_version(), reason="this kernel has no Landlock")


def order_of_writer(target: Path, manifests: Path) -> WorkOrder:
    """Return an order of a frozen graph that writes `target` before it answers."""
    (manifests / "models").mkdir(parents=True)
    (manifests / "datasets").mkdir()
    graph = tf.Graph()
    with graph.as_default():
        x = tf.compat.v1.placeholder(tf.float32, (None, 4), "x")
        with tf.control_dependencies([tf.io.write_file(str(target), "written by a model")]):
            tf.identity(x, "y")
    body = graph.as_graph_def().SerializeToString()
    (manifests / "models" / "net.pb").write_bytes(body)
    subject = a_subject(framework="tensorflow")
    assets = Assets(graph_path="net.pb", checksum=hashlib.sha256(body).hexdigest(), format="frozen")
    changes = {"framework": FrameworkNeed(name="tensorflow"), "model": assets}
    model = subject.model.model_copy(update=changes)
    return an_order(subject.model_copy(update={"model": model}), (a_run(queries=1),))


def run_freely(order: WorkOrder, manifests: Path) -> None:
    """Run the order's graph in this process, without a sandbox."""
    definition = tf.compat.v1.GraphDef()
    path = manifests / "models" / order.subject.model.model.graph_path
    definition.ParseFromString(path.read_bytes())
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.import_graph_def(definition, name="")
        session.run("y:0", {"x:0": [[0.0] * 4]})


@pytest.mark.long
@needs_landlock
async def test_a_model_that_writes_a_file_fails_and_the_file_stays(tmp_path: Path) -> None:
    """The attack as it was found; without the sandbox it succeeds."""
    key, manifests = tmp_path / "keys" / "scheduler.nk", tmp_path / "manifests"
    key.parent.mkdir()
    key.write_text("SEED")
    order = order_of_writer(key, manifests)
    said = await carried_out(order, tmp_path / "w", manifests=manifests)
    (failed,) = said.of(RunFailed)
    place = "Detected at node 'WriteFile' defined at (most recent call last):"
    assert failed.message == f"cannot open identity: predict: Graph execution error: {place}"
    assert [path.read_text() for path in key.parent.iterdir()] == ["SEED"]
    run_freely(order, manifests)
    assert key.read_text() == "written by a model"
