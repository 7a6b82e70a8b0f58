"""The summary of all benchmarks: figures beside budgets, resumed at the same commit only."""

import json
from pathlib import Path

import pytest

from benchmarks.__main__ import earlier, measure, shown
from benchmarks.claims import VARIABLE, claim, claims_in, summary_of


def test_a_claim_is_noted_and_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "claims"
    monkeypatch.setenv(VARIABLE, str(path))
    assert claim("first byte", 55.4, most=100, unit="ms", peer="bare 2")
    assert not claim("first byte", 101, most=100, unit="ms")
    assert claim("rows a second", 0.7, least=0.5, unit="x")
    assert not claim("rows a second", 0.4, least=0.5, unit="x")
    assert [one.is_met for one in claims_in(path)] == [True, False, True, False]
    lines = summary_of([("pages", one) for one in claims_in(path)]).splitlines()
    assert lines[1].split() == [
        "pages",
        "first",
        "byte",
        "55.4",
        "ms",
        "≤",
        "100",
        "met",
        "bare",
        "2",
    ]
    assert lines[2].endswith("≤ 100   MISSED")
    assert "≥ 0.5" in lines[3]


def test_without_a_run_of_all_nothing_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert claim("lost", 0, most=0, unit="spans")
    assert claims_in(Path("nowhere")) == []


def test_what_ended_is_resumed_with_the_same_arguments_only(tmp_path: Path) -> None:
    failed = measure("no_such_benchmark", "--of 3", tmp_path)
    assert failed.code != 0
    assert "No module named" in (tmp_path / "no_such_benchmark.txt").read_text()
    again = earlier("no_such_benchmark", "--of 3", tmp_path)
    assert again == failed
    assert earlier("no_such_benchmark", "--of 4", tmp_path) is None
    assert earlier("other", "--of 3", tmp_path) is None
    kept = tmp_path / "no_such_benchmark.json"
    kept.write_text(json.dumps({**json.loads(kept.read_text()), "machine": "another commit"}))
    assert earlier("no_such_benchmark", "--of 3", tmp_path) is None
    assert "NOT as wanted" in shown([failed])
