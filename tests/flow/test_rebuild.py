"""A cluster whose rows and tables were all dropped, and are computed anew from its log."""

from pathlib import Path
from typing import Any

import psycopg
import pytest

from cli.cluster.state import read_state
from mlscope.settings import Settings
from tests.flow.clusters import Cluster, assert_well, online, run, until
from tests.flow.endings import failed
from tests.flow.manifests import model
from tests.services.collector.stored import ANALYZED, ROWS, digest_query

pytestmark = [pytest.mark.long, pytest.mark.timeout(180)]
#: rows stay in the log until the test has ended
CLUSTER = {"MLSCOPE_PURGE_AFTER_S": "3600"}

SLOW = {"name": "fixed_rate", "parameters": {"queries": 900, "rate_hz": 60}}
TRACE = Path("tests/mlscope/importing/files/kineto_cpu.json").resolve()
SETTLED = "SELECT count(*) FROM run WHERE recorded_at IS NULL"


def end_in_every_way(cluster: Cluster) -> None:
    """Evaluate what is analyzed, fails, is imported, and is cancelled in mid-run."""
    good = run(cluster, "tiny-cnn", scenarios=online(), trace_level="framework")
    assert good.state == "analyzed"
    gone = model("identity")
    gone["model"]["graph_path"] = "gone.onnx"
    failed(cluster, model=gone)
    cluster.mlscope("import", str(TRACE), "--model", "small-net", "--batch-size", "2")
    with cluster.client() as client:
        evaluation = client.run("identity", scenarios=[SLOW])
        # Of queries: what a cancellation cuts off before is in no table.
        answered = "SELECT FROM batch WHERE kind = 1 AND run_key NOT IN (SELECT run_key FROM run)"
        until(lambda: cluster.rows(answered))
        evaluation.cancel("seen enough")
        assert evaluation.wait(60).state == "cancelled"
        until(lambda: bool(evaluation.status().tables), within_s=90.0)


def drop_everything(cluster: Cluster) -> None:
    state = read_state(cluster.folder)
    environ = {
        "MLSCOPE_DATABASE_URL": state.database_url,
        "MLSCOPE_DATABASE_PASSWORD_FILE": state.database_password_file,
    }
    with psycopg.connect(Settings.read(environ).database_conninfo()) as session:
        session.execute(f"TRUNCATE {', '.join(ROWS + ANALYZED)}".encode())


def digests(cluster: Cluster) -> dict[str, Any]:
    return {table: cluster.rows(digest_query(table)) for table in ROWS + ANALYZED}


def test_every_row_and_table_is_as_before(cluster: Cluster) -> None:
    end_in_every_way(cluster)
    until(lambda: cluster.rows(SETTLED) == [(0,)], within_s=90.0)
    before = digests(cluster)
    drop_everything(cluster)
    assert digests(cluster) != before
    told = cluster.mlscope("rebuild").splitlines()
    assert digests(cluster) == before
    outcomes = cluster.rows("SELECT outcome, count(*) FROM run GROUP BY 1 ORDER BY 1")
    assert outcomes == [("completed", 3), ("failed", 2)]
    assert told[1].startswith("rebuilt: 5 runs of 4 evaluations (")
    assert told[2:] == ["tables of 3 evaluations, 3 with the log's digest"]
    assert_well(cluster)
