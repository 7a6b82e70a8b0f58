"""How pytest-xdist shares tests out among its workers.

A worker takes a file at a time, so a module's fixtures (a cluster, a traced network) are made once.
Files that share a cluster, or what a framework keeps for its whole process, go to one worker. What
takes long comes first (`tests/ordering.py`). pytest-xdist's own mark for groups has no effect with
pytest 9.2.
"""

from contextlib import suppress

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

TOGETHER = {
    "a cluster with the usual settings": tuple(
        f"tests/flow/test_{name}.py"
        for name in (
            "bad_assets",
            "foreign",
            "offline",
            "pages_token",
            "predictions",
            "requests",
            "texts",
        )
    ),
    "a cluster under pressure": tuple(
        f"tests/flow/test_{name}.py" for name in ("fuzzed", "many_requests", "memory")
    ),
    "a cluster with predictors of other packages": tuple(
        f"tests/flow/test_{name}.py" for name in ("devices", "levels", "own_files")
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
        "tests/mlscope/datasets/readers/test_tfrecord.py",
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

    def remove_node(self, node: WorkerController) -> str | None:
        """Take a worker out; return the test that killed it, None if it ended with nothing to do.

        pytest-xdist runs that test again on the next worker, and hands out once more the files that
        are done: with nothing to run in them, a worker waits without end.
        """
        units = self.assigned_work.pop(node)
        tests = {
            scope: [test for test, is_complete in unit.items() if not is_complete]
            for scope, unit in units.items()
        }
        deadly = next((test for pending in tests.values() for test in pending), None)
        for scope, pending in reversed(tests.items()):
            if unit := {test: False for test in pending if test != deadly}:
                self.workqueue[scope] = unit
                self.workqueue.move_to_end(scope, last=False)
        for survivor in self.nodes:
            self._reschedule(survivor)
        return deadly

    def _reschedule(self, node: WorkerController) -> None:
        """Give a worker more before it lacks work: it begins a test only once it has the next."""
        if node.shutting_down:
            return
        while self.workqueue and self._pending_of(self.assigned_work[node]) <= 2:
            self._assign_work_unit(node)
        if not self.workqueue:
            node.shutdown()

    def _assign_work_unit(self, node: WorkerController) -> None:
        # A worker that has just died gets it in vain: `remove_node` takes it back.
        with suppress(OSError):
            super()._assign_work_unit(node)
