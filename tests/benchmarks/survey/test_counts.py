"""Counters of kinds of operator calls: each kind once, taken as often as it came."""

import json
from pathlib import Path

import pytest

from benchmarks.survey.counts import METRICS, read, summed
from mlscope.importing.errors import ReportUnreadable
from mlscope.importing.ncu.metrics import DURATION, OCCUPANCY, READ_BYTES, WRITTEN_BYTES
from mlscope.importing.ncu.report import CountedKernel

torch = pytest.importorskip("torch")
FMA = "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"


class Notes:
    """A profiler that notes when it is on."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.is_on = False

    def begin(self, name: str) -> None:
        """Note what is looked at."""
        assert not self.is_on
        self.names.append(name)
        self.is_on = True

    def end(self) -> None:
        """Look no more."""
        self.is_on = False


def kernel(name: str, **counters: float) -> CountedKernel:
    return CountedKernel(0, "k", (name,), 0, 0, (1,), (1,), counters)


def test_only_the_first_call_of_a_kind_is_watched() -> None:
    from benchmarks.survey.counting import FirstOfAKind

    notes, one = Notes(), torch.ones(4, 4)
    with FirstOfAKind(notes, "net") as mode:
        for _ in range(3):
            one = torch.relu(one)
        torch.relu(one[:2])
        torch.mul(one, 2.0)
        torch.mul(one, 3.0)
    kinds = sorted(mode.times.values())
    assert len(notes.names) == len(mode.times)
    assert kinds.count(3) == 1, "three alike, and others for shapes and numbers"
    assert sum(kinds) == 7


def test_strides_and_settings_make_a_kind() -> None:
    from benchmarks.survey.counting import kind_of

    func, one = torch.ops.aten.sum.dim_IntList, torch.ones(4, 4)
    assert kind_of(func, (one, [0]), {}) == kind_of(func, (one * 7, [0]), {})
    others = [(one.T, [0]), (one.double(), [0]), (one[:3], [0]), (one, [1])]
    assert len({kind_of(func, args, {}) for args in [(one[:, :3].T, [0]), *others[1:]]}) == 4


def test_a_kind_counts_as_often_as_it_came() -> None:
    conv = {FMA: 10.0, READ_BYTES: 3.0, WRITTEN_BYTES: 1.0, DURATION: 30.0, OCCUPANCY: 50.0}
    relu = {FMA: 0.0, READ_BYTES: 2.0, WRITTEN_BYTES: 2.0, DURATION: 10.0, OCCUPANCY: 90.0}
    kernels = [kernel("net|0", **conv), kernel("net|1", **relu), kernel("other|0", **conv)]
    found = summed(kernels, {"net|0": 2, "net|1": 3})
    assert (found.counted, found.kernels, found.flops) == (2, 5, 40.0)
    assert (found.read_bytes, found.written_bytes, found.kernel_ns) == (12.0, 8.0, 90.0)
    assert found.occupancy == pytest.approx((60 * 50 + 30 * 90) / 90)


def test_models_that_were_counted_whole_are_read(tmp_path: Path) -> None:
    names = ["ID", "Kernel Name", "Stream", "Device", "thread Domain:Push/Pop_Range:x", *METRICS]
    values = ["0", "k", "7", "0", '1  "<default domain>:net|0:none:none:none:none:none:none" ']
    rows = [names, ["" for _ in names], [*values, *("5" for _ in METRICS)]]
    table = "\n".join(",".join('"' + cell.replace('"', '""') + '"' for cell in row) for row in rows)
    (tmp_path / "counts-0.csv").write_text("==PROF== talk\n" + table + "\n")
    told = {"model": "net", "batch": 8, "times": {"net|0": 4}}
    (tmp_path / "counts-0.jsonl").write_text(json.dumps(told) + "\n")
    batch, counted = read(tmp_path, 0)["net"]
    assert (batch, counted.kernels, counted.read_bytes) == (8, 4, 20.0)


def test_a_report_without_a_table_says_so(tmp_path: Path) -> None:
    (tmp_path / "counts-0.csv").write_text("==ERROR== no\n")
    (tmp_path / "counts-0.jsonl").write_text("")
    with pytest.raises(ReportUnreadable):
        read(tmp_path, 0)
