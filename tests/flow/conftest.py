"""Local clusters: three that modules share, and one for each module with settings of its own.

Shared ones end with the last test of this folder: an idle cluster takes 5% of a core.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.examples.installing import install_fpga_predictor
from tests.flow.clusters import REPOSITORY, Cluster, running

SLEEPY = REPOSITORY / "tests" / "services" / "agent" / "sleepy"
WORKER_BYTES = 800 << 20


@pytest.fixture(scope="package")
def shared_cluster() -> Iterator[Cluster]:
    """Lend a cluster with the usual settings, and all models, to every module that changes none."""
    with running(has_all_models=True) as lent:
        yield lent


@pytest.fixture(scope="package")
def cluster_with_packages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Lend a cluster whose agent has predictors of other packages: `fpga` and `instrumented`."""
    packages = tmp_path_factory.mktemp("fpga") / "packages"
    install_fpga_predictor(packages)
    settings = {
        "MLSCOPE_AGENT_PREDICTORS": "fpga,instrumented,onnxruntime,remote",
        "PYTHONPATH": os.pathsep.join((str(packages), str(Path(__file__).parent / "instrumented"))),
    }
    with running(settings) as lent:
        yield lent


@pytest.fixture(scope="package")
def cluster_under_pressure() -> Iterator[Cluster]:
    """Lend a cluster to modules that ask for more than it gives: requests, or memory."""
    settings = {
        "MLSCOPE_MAX_PENDING_REQUESTS": "300",
        "MLSCOPE_WORKER_MEMORY_BYTES": str(WORKER_BYTES),
        "PYTHONPATH": str(SLEEPY),
    }
    with running(settings) as lent:
        yield lent


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Lend a running cluster; a module's `CLUSTER` is a shared one's name, or its own settings."""
    settings = getattr(request.module, "CLUSTER", "shared_cluster")
    if isinstance(settings, str):
        yield request.getfixturevalue(settings)
        return
    with running(settings) as lent:
        yield lent
