"""How pytest-xdist shares tests out among its workers.

A worker takes a file at a time, so a module's fixtures (a cluster, a traced network) are made once.
Files that share a cluster, or what a framework keeps for its whole process, go to one worker. What
takes long comes first (`tests/ordering.py`). pytest-xdist's own mark for groups has no effect with
pytest 9.2.
"""

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

TOGETHER = {
    "a cluster with the usual settings": tuple(
        f"tests/flow/test_{name}.py"
        for name in ("bad_assets", "foreign", "offline", "predictions", "requests", "texts")
    ),
    "jax": ("tests/services/agent/predictors/jax/",),
    "pytorch": (
        "tests/benchmarks/survey/test_counts.py",
        "tests/mlscope/importing/kineto/",
        "tests/services/agent/collectors/kineto/",
        "tests/services/agent/collectors/test_onednn.py",
        "tests/services/agent/predictors/pytorch/",
    ),
    "survey": (
        "tests/benchmarks/survey/test_bounds.py",
        "tests/benchmarks/survey/test_survey.py",
    ),
    "tensorflow": (
        "tests/services/agent/predictors/tensorflow/",
        "tests/tools/catalog/test_keras.py",
    ),
    "timescale": ("tests/timescale/",),
}
"""The beginnings of the paths of what one worker runs."""


class FilesTogether(LoadScopeScheduling):
    """Hands out files, or groups of files, in the order of the collection."""

    def __init__(self, config: pytest.Config, log: Producer | None) -> None:
        """Take the controller's settings; `log` is its debug log."""
        config.option.loadscopereorder = False
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0]
        groups = (name for name, paths in TOGETHER.items() if path.startswith(paths))
        return next(groups, path)
