"""A benchmark's cluster goes with the benchmark, whoever ends it."""

import signal
from pathlib import Path

import pytest

from benchmarks import cluster


def test_a_benchmark_that_is_terminated_takes_its_cluster_down(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    commands: list[str] = []
    monkeypatch.setattr(
        cluster, "mlscope", lambda _folder, *arguments: commands.append(*arguments[:1])
    )
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit), cluster.running(tmp_path):
        signal.raise_signal(signal.SIGTERM)
    assert commands == ["up", "down"]
    assert signal.getsignal(signal.SIGTERM) == before
