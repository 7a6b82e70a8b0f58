"""Driving ncu: the command, what comes of its report, and what is said when there is none."""

import stat
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mlscope.importing.ncu.metrics import DURATION, metrics_for
from schemas.level import Level
from services.agent.collectors import Collected, CollectorRequest, CollectorUnavailable
from services.agent.collectors.ncu import collector as ncu
from services.agent.collectors.ncu.collector import (
    MAX_EXTRA,
    NcuCollector,
    command_of,
    open_collector,
)
from services.agent.link.messages import PerformOrder
from services.agent.predictors import Opened
from services.agent.worker.session_opener import SessionOpener
from tests.gpu.recordings import recorded_text
from tests.services.agent.builders import MANIFESTS, an_order

OPENED = Opened("pytorch", "2.11", (), (), "gpu", "H200", "float32", 1, {})
ORDER = PerformOrder(an_order(), MANIFESTS)

Tool = Callable[[str], str]


@pytest.fixture
def tool(tmp_path: Path) -> Tool:
    """Make a stand-in for ncu: Python that is given `report`, its --log-file, and `order`."""

    def make(body: str) -> str:
        path = tmp_path / "ncu"
        head = f"#!{sys.executable}\nimport sys, pathlib\nwords = sys.argv\n"
        names = "report = pathlib.Path(words[words.index('--log-file') + 1])\norder = words[-1]\n"
        path.write_text(head + names + body)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path)

    return make


def request(scratch: Path, **options: object) -> CollectorRequest:
    return CollectorRequest(OPENED, Level.HARDWARE, options, scratch, SessionOpener(ORDER, scratch))


def collected_with(path: str, scratch: Path) -> NcuCollector:
    collector = NcuCollector(path, request(scratch), metrics_for("float32"))
    collector.begin()
    return collector


def test_the_replays_kernels_come_once(tool: Tool, tmp_path: Path) -> None:
    recording = tmp_path / "recording.csv"
    recording.write_text(recorded_text("ncu_resnet50_b32.csv"))
    copy = f"report.write_bytes(pathlib.Path({str(recording)!r}).read_bytes())\n"
    body = f"assert pathlib.Path(order).stat().st_size\n{copy}"
    collector = collected_with(tool(body), tmp_path)
    first = collector.end()
    assert len(first.spans) == 239
    assert {span.level for span in first.spans} == {Level.HARDWARE}
    assert first.notes == ()
    collector.begin()
    assert collector.end().spans == ()


@pytest.mark.parametrize(
    ("body", "note"),
    [
        ("report.write_text('==ERROR== ERR_NVGPUCTRPERM\\n'); sys.exit(1)\n", "lets only root"),
        ("report.write_text('==ERROR== Unknown metric\\n'); sys.exit(9)\n", "Unknown metric"),
        ("sys.exit('OpenFailed: no such model')\n", "OpenFailed: no such model"),
        ("report.write_text('==PROF== Connected\\n')\n", "holds no table"),
    ],
)
def test_why_there_is_none_is_said(tool: Tool, tmp_path: Path, body: str, note: str) -> None:
    collected = collected_with(tool(body), tmp_path).end()
    assert collected.spans == ()
    assert len(collected.notes) == 1
    assert note in collected.notes[0]


def test_a_replay_that_takes_too_long_is_said(tool: Tool, tmp_path: Path) -> None:
    path = tool("import time\ntime.sleep(600)\n")
    collector = NcuCollector(path, request(tmp_path, timeout_s=0.5), metrics_for("float32"))
    collector.begin()
    assert collector.end().notes == ("the replay did not end within 0.5 s",)


def test_a_metric_that_the_chip_lacks_is_named(tool: Tool, tmp_path: Path) -> None:
    head = '"ID","Kernel Name","Stream","Device","dram__bytes_read.sum"\n"","","","","byte"\n'
    body = f'report.write_text({head!r} + \'"0","k","7","0","5"\\n\')\n'
    collected = collected_with(tool(body), tmp_path).end()
    assert [(span.attributes or {})["dram_read_bytes"] for span in collected.spans] == [5]
    assert "ncu did not count dram__bytes_write.sum" in collected.notes[0]


def test_any_metric_may_be_asked_for_but_nothing_else(
    tool: Tool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ncu, "tool", lambda: tool(""))
    open_collector(request(tmp_path, metrics=["l2__misses.sum"]))
    for wrong in ("--export=/tmp/x", "a,b c", "$(true)"):
        with pytest.raises(CollectorUnavailable, match="not the name of a metric"):
            open_collector(request(tmp_path, metrics=[wrong]))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a__x.sum+b__y.avg", ["a__x.sum", "b__y.avg"]),
        ("a__x.sum,group:memory__l2_cache_table", ["a__x.sum", "group:memory__l2_cache_table"]),
        ("regex:^l1tex__.+(hit|miss)", ["regex:^l1tex__.+(hit|miss)"]),
    ],
)
def test_metrics_are_asked_for_as_ncu_names_them(
    tool: Tool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, names: list[str]
) -> None:
    monkeypatch.setattr(ncu, "tool", lambda: tool(""))
    assert open_collector(request(tmp_path, metrics=text))._metrics[-len(names) :] == (*names,)


def collected_of(tool: Tool, folder: Path, asked: str, columns: dict[str, str]) -> Collected:
    """Collect one kernel that a report of these columns, with these values, tells of."""
    names = ["ID", "Kernel Name", "Stream", "Device", *columns]
    rows = [names, [""] * len(names), ["0", "k", "7", "0", *columns.values()]]
    text = "\n".join(",".join(f'"{cell}"' for cell in row) for row in rows)
    path = tool(f"report.write_text({text!r})\n")
    collector = NcuCollector(path, request(folder), (DURATION, asked))
    collector.begin()
    return collector.end()


@pytest.mark.parametrize(
    "asked", ["group:memory__l2_cache_table", "breakdown:sm__throughput.avg", "regex:lts__.*"]
)
def test_what_stands_for_several_metrics_gives_them_all(
    tool: Tool, tmp_path: Path, asked: str
) -> None:
    columns = {DURATION: "5", "lts__t_sectors.sum": "1,234", "lts__hit.pct": "12.5", "CC": "9.0"}
    collected = collected_of(tool, tmp_path, asked, columns)
    (kernel,) = [span.attributes or {} for span in collected.spans]
    assert kernel["counters"] == {DURATION: 5.0, "lts__t_sectors.sum": 1234.0, "lts__hit.pct": 12.5}
    assert collected.notes == ()
    none = collected_of(tool, tmp_path, asked, {DURATION: "5"})
    assert none.notes == (f"ncu did not count {asked}",)


def test_more_metrics_than_a_span_holds_are_left_out_and_counted(
    tool: Tool, tmp_path: Path
) -> None:
    columns = {DURATION: "5"} | {f"a__{number}.sum": "1" for number in range(200)}
    collected = collected_of(tool, tmp_path, "regex:a__.*", columns)
    (kernel,) = [span.attributes or {} for span in collected.spans]
    assert len(kernel["counters"]) == 1 + MAX_EXTRA
    assert collected.notes == (f"only {MAX_EXTRA} of 200 additional metrics are kept",)


def test_without_the_tool_it_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ncu, "tool", lambda: None)
    with pytest.raises(CollectorUnavailable, match="not on the PATH"):
        open_collector(request(tmp_path))
    assert ncu.availability().levels == ()


def test_clocks_and_caches_are_left_alone() -> None:
    command = command_of("ncu", ("a.sum", "b.sum"), Path("r.csv"), Path("o.bin"))
    text = " ".join(command)
    assert "--clock-control none" in text
    assert "--cache-control none" in text
    assert "--metrics a.sum,b.sum" in text
    assert command[-1] == "o.bin"


def test_a_model_of_doubles_has_its_doubles_counted() -> None:
    kinds = {
        name.split("_op_")[1].split("_")[0] for name in metrics_for("float64") if "_op_" in name
    }
    assert {"dadd", "dmul", "dfma"} <= kinds
    assert not any("op_d" in name for name in metrics_for("float32"))


def test_kernels_without_layers_are_said(tool: Tool, tmp_path: Path) -> None:
    head = '"ID","Kernel Name","Stream","Device","dram__bytes_read.sum"\n"","","","","byte"\n'
    path = tool(f'report.write_text({head!r} + \'"0","k","7","0","5"\\n\')\n')
    compiled = replace(request(tmp_path), opened=replace(OPENED, options={"compile": "default"}))
    collector = NcuCollector(path, compiled, metrics_for("float32"))
    collector.begin()
    assert "without their layers" in collector.end().notes[-1]
