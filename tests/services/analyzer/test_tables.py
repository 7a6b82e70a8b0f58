"""Every table: its golden files, its documentation, and that nothing at all breaks none of them."""

import re
from pathlib import Path

import pytest

from schemas.level import Level
from services.analyzer.analysis import analyze
from services.analyzer.building.table import Analysis
from services.analyzer.frames.evaluation import ANSWERED, RunRow, features_of
from services.analyzer.tables import ANALYSES
from tests.services.analyzer.golden import FOLDER, frames_in, made_of

_ONE = [[0, 0, 1, None, 0, 0, 5_000_000, None, ANSWERED]]
_FAILED = [[0, 0, 1, 0, 0, 0, 5_000_000, None, 1]]
_ROOT = [[0, None, 1, "query", 0, 5, 0, 0, 0]]


@pytest.mark.parametrize("folder", sorted(FOLDER.iterdir()), ids=lambda folder: folder.name)
def test_golden_table(folder: Path) -> None:
    assert made_of(folder) == (folder / "table.csv").read_text()


def test_a_golden_folder_of_no_analysis_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "strange-case"
    folder.mkdir()
    (folder / "input.json").write_text('{"runs": []}')
    with pytest.raises(SystemExit, match="no analysis is called strange; they are conditions, "):
        made_of(folder)


def test_every_table_has_golden_files() -> None:
    assert {each.name for each in ANALYSES} <= {folder.name for folder in FOLDER.iterdir()}


@pytest.mark.parametrize("analysis", ANALYSES, ids=lambda each: each.name)
def test_every_column_is_described_with_its_unit(analysis: Analysis) -> None:
    assert analysis.source.endswith(".")
    names = [column.name for column in analysis.columns]
    assert len(set(names)) == len(names)
    # The view of a table has these itself.
    assert not {"evaluation", "ordinal"} & set(names)
    for column in analysis.columns:
        assert column.description.endswith((".", ")."))
        assert column.unit or column.type in ("text", "bool")


@pytest.mark.parametrize(
    "runs",
    [
        [],
        [{"run": "r0", "level": 3}],
        [{"run": "r0", "level": 3, "queries": _FAILED}],
        [{"run": "r0", "level": 3, "queries": _ONE}],
        [{"run": "r0", "level": 3, "queries": _ONE, "spans": _ROOT}],
        [{"run": "r0", "level": 2, "queries": _FAILED, "spans": _ROOT}],
        [{"run": "r0", "queries": _ONE}, {"run": "r1", "level": 7, "queries": _ONE}],
        [{"run": "r0", "outputs": [[0, 5, '"torn"'], [0, 6, {}]]}],
    ],
    ids=["no runs", "no queries", "all failed", "one sample", "root only", "failed", "deep", "odd"],
)
def test_little_or_nothing_still_makes_every_table(runs: list[dict[str, object]]) -> None:
    done = analyze(frames_in({"runs": runs}))
    assert [table.name for table in done.tables] == [each.name for each in ANALYSES]
    for table in done.tables:
        assert table.verdict.endswith(".")
        assert all(len(row) == len(table.columns) for row in table.rows)


@pytest.mark.parametrize(
    "scoring_context", [{}, {"unscorable_reason": "the weights are random"}], ids=["", "unscorable"]
)
def test_every_table_says_of_what_it_was_not_made(scoring_context: dict[str, object]) -> None:
    cut = "r0: the first 3 of 5 spans were read"
    frames = frames_in(
        {
            "runs": [{"run": "r0", "queries": _ONE}],
            "caveats": [cut],
            "scoring_context": scoring_context,
        }
    )
    silent = [each.name for each in ANALYSES if cut not in each.compute(frames).caveats]
    assert silent == []


def test_the_same_rows_give_the_same_digest() -> None:
    value = {"runs": [{"run": "r0", "queries": _ONE}]}
    assert analyze(frames_in(value)).digest == analyze(frames_in(value)).digest
    other = {"runs": [{"run": "r0", "queries": _FAILED}]}
    assert analyze(frames_in(value)).digest != analyze(frames_in(other)).digest


def test_features_are_sorted_and_odd_ones_are_none() -> None:
    text = '[{"label": "a", "probability": 0.1}, {"label": "b", "probability": 0.9}, 3]'
    assert [each["label"] for each in features_of(text)] == ["b", "a"]
    assert features_of('"torn"') == []


def test_a_level_has_a_name() -> None:
    assert [RunRow(1, "r", level=each).level_name for each in Level][:2] == ["none", "application"]


_ALONE = {
    "run": "r0",
    "level": 5,
    "queries": [[0, 0, 1, None, 0, 0, 5_000_000, 5_000_000, ANSWERED]],
    "spans": [
        [0, None, 1, "query", 0, 5_000_000, 0, 0, 0],
        [1, 0, 2, "predict", 0, 4_000_000, 0, 0, 0],
        [2, 1, 3, "conv", 0, 3_000_000, 0, 0, 0, 0],
    ],
    "layers": [[0, "conv", "Conv"]],
    "kernels": [[0, 0, "gemm", 10, 900_000, 5.0]],
    "dropped_batches": 1,
}


@pytest.mark.parametrize("queries", [_ALONE["queries"], _FAILED], ids=["answered", "failed"])
def test_one_of_anything_is_one(queries: list[list[object]]) -> None:
    done = analyze(frames_in({"runs": [_ALONE | {"queries": queries}]}))
    said = [each for table in done.tables for each in (table.verdict, *table.caveats)]
    wrong = re.compile(r"(?<![\d.,])1 (?:\w+ )?(?:[a-z]{3,}[^s\W]s|queries|batches)\b(?! most)")
    assert [each for each in said if wrong.search(each)] == []
    assert any("1 kernel of 1 name runs" in each for each in said) == (queries is not _FAILED)
