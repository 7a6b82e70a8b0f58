"""Differences as people and programs get them: with units, and whole on a terminal."""

import json
import sys

import pytest

from cli.commands.reproduce import write_differences
from mlscope.reproducing.differences import differences
from tests.cli.printing.terminal import Terminal
from tests.mlscope.reproducing.reference_logs import a_log

BEFORE, NOW = a_log(median=194_012_345.0), a_log(median=134_218_000.0)


def written(form: str, capsys: pytest.CaptureFixture[str]) -> str:
    write_differences(form, BEFORE, NOW, differences(BEFORE, NOW))
    return capsys.readouterr().out


def test_a_terminal_gets_every_word_and_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(sys, "stdout", terminal)
    write_differences("table", BEFORE, NOW, differences(BEFORE, NOW))
    lines = [line for line in terminal.getvalue().splitlines() if "\x1b" not in line]
    assert max(map(len, lines)) <= 100
    assert "\N{HORIZONTAL ELLIPSIS}" not in terminal.getvalue()
    for told in ("194", "175", "213", "134", "121", "148", "0.692,", "overlap"):
        assert told in " ".join(lines).split() or f"[{told}" in " ".join(lines), told


def test_a_pipe_gets_a_line_a_difference(capsys: pytest.CaptureFixture[str]) -> None:
    told = written("table", capsys)
    assert "194 ms [175 ms, 213 ms]  134 ms [121 ms, 148 ms]  ratio 0.692, the " in told


def test_programs_get_figures_as_they_were(capsys: pytest.CaptureFixture[str]) -> None:
    (median,) = [
        each
        for each in json.loads(written("json", capsys))["differences"]
        if each["name"] == "latency median"
    ]
    assert median["now"] == "1.34218e+08 [1.20796e+08, 1.4764e+08]"
    assert "1.34218e+08 [1.20796e+08, 1.4764e+08]" in written("csv", capsys)
