"""A cold start of a PyTorch model on a CPU: its weights, first and warm layers, each in its run."""

from hashlib import sha256
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from mlscope.load.scenarios import COLD  # noqa: E402
from schemas.batch import SpanKind  # noqa: E402
from schemas.level import Level  # noqa: E402
from schemas.plan import Subject, WorkOrder  # noqa: E402
from services.agent.link.allowances import Allowances  # noqa: E402
from services.agent.predictors import Opened  # noqa: E402
from services.agent.worker.control import Control  # noqa: E402
from services.agent.worker.group import Group  # noqa: E402
from services.agent.worker.open_collectors import CollectorContext  # noqa: E402
from services.agent.worker.opening import SessionEnvironment, open_session_in  # noqa: E402
from services.agent.worker.session import Session  # noqa: E402
from tests.services.agent.builders import a_run, a_synthetic, an_order  # noqa: E402
from tests.services.agent.predictors import nets  # noqa: E402
from tests.services.agent.predictors.pytorch.test_predictor import NETS, manifest  # noqa: E402
from tests.services.agent.worker.test_open_collectors import SWITCHED_OFF, Heard  # noqa: E402

SWITCHES = {**SWITCHED_OFF, "resource": True}
LAYERS = {"0", "1", "2", "3", "4"}
"""Of `nets.small`; the first, second and last have weights."""


def order_of(folder: Path) -> WorkOrder:
    """Return a cold start at level system and two warm queries, of a model with a file."""
    torch.save(nets.small().state_dict(), folder / "w.pth")
    checksum = sha256((folder / "w.pth").read_bytes()).hexdigest()
    subject = Subject(
        model=manifest(weights="", weights_path="w.pth", weights_checksum=f"sha256:{checksum}"),
        dataset=a_synthetic((3, 8, 8)),
        framework="pytorch",
        options={"threads": 1},
        warmup=0,
        outputs=0,
        collectors=SWITCHES,
    )
    runs = (
        a_run("first", level="system", scenario=COLD, queries=1),
        a_run("warm", level="system", queries=2, group=1),
    )
    order = an_order(subject, runs)
    cold = order.session.model_copy(update={"variant": "cold"})
    return order.model_copy(update={"session": cold})


def opened(order: WorkOrder, folder: Path) -> Session:
    asked = Opened("pytorch", "", (), (), "cpu", "", "", 0, {})
    place = SessionEnvironment(
        folder,
        Allowances(builders=(NETS,)),
        traces_first=True,
        collectors=CollectorContext(asked, Level.SYSTEM, "cold", SWITCHES),
    )
    return open_session_in(place, order.subject, 1, folder, {})


def test_a_cold_start_tells_of_weights_and_layers_by_name(tmp_path: Path) -> None:
    models = tmp_path / "models"
    models.mkdir()
    order = order_of(models)
    session = opened(order, tmp_path)
    heard = {run: Heard() for run in order.runs}
    for run, hears in heard.items():
        one = order.model_copy(update={"runs": (run,)})
        (outcome,) = Group(session, one, Control(), hears, lambda _: None).perform()
        assert outcome.happened == "completed", outcome
    session.close()
    first = heard["first"]
    spans = [row for row in first.rows("weights.load ") if row.get("kind", 0) == SpanKind.HOST]
    (loading,) = first.rows("open")
    assert len(spans) == 3
    assert {row["parent"] for row in spans} == {loading["span"]}
    assert all(row["start_ns"] + row["duration_ns"] <= loading["duration_ns"] for row in spans)
    # On a CPU nothing is moved.
    assert first.rows("weights.place ") == []
    for layer in LAYERS:
        assert len([r for r in first.rows(layer) if r["level"] == Level.FRAMEWORK]) == 1
        warm = [r for r in heard["warm"].rows(layer) if r["level"] == Level.FRAMEWORK]
        assert len(warm) == 2
    # What it used was counted from before the opening to behind the first run.
    (used,) = first.rows("resource.cpu_user")
    (root,) = first.rows("query")
    assert used["start_ns"] >= root["duration_ns"]
    assert heard["warm"].rows("weights") == []
