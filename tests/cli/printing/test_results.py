"""Results on the terminal: the exit code, notes on runs, why there is none, and the verdict."""

import pytest

from cli import exits
from cli.printing.results import (
    accuracy_verdict,
    caveats_of,
    exit_code_of,
    print_failure,
    print_run_notes,
    write_result,
)
from mlscope.client.results import ResultTables
from mlscope.evaluation.fold import fold
from mlscope.evaluation.status import status_of
from schemas.analysis import Table, Tables
from schemas.request import AgentReason
from schemas.status import EvaluationStatus
from tests.stories import LATENCY, E, whole_story

ACCURACY = LATENCY.model_copy(update={"name": "accuracy", "verdict": "All answers are right."})


def status(**run: object) -> EvaluationStatus:
    """Return an analyzed evaluation; its last run has the fields `run`."""
    analyzed = status_of(fold(whole_story()))
    first, last = analyzed.runs
    return analyzed.model_copy(update={"runs": (first, last.model_copy(update=run))})


def tables(*held: Table) -> ResultTables:
    return ResultTables(Tables(evaluation=E, tables=held))


@pytest.mark.parametrize(
    ("run", "plain", "strict"),
    [
        ({}, exits.OK, exits.OK),
        ({"caveats": ("noisy",)}, exits.OK, exits.INVALID),
        ({"level_note": "no layers"}, exits.OK, exits.INVALID),
        ({"state": "incomplete"}, exits.INVALID, exits.INVALID),
        ({"state": "incomplete", "caveats": ("noisy",)}, exits.INVALID, exits.INVALID),
        ({"state": "failed", "caveats": ("noisy",)}, exits.FAILED, exits.FAILED),
        ({"state": "interrupted"}, exits.FAILED, exits.FAILED),
        ({"state": "cancelled"}, exits.OK, exits.OK),
    ],
)
def test_the_worst_of_the_runs_is_the_exit_code(
    run: dict[str, object], plain: int, strict: int
) -> None:
    assert exit_code_of(status(**run), is_strict=False) == plain
    assert exit_code_of(status(**run), is_strict=True) == strict


def test_caveats_of_tables_count_only_for_a_strict_run() -> None:
    assert exit_code_of(status(), is_strict=False, caveats=["latency: noisy"]) == exits.OK
    assert exit_code_of(status(), is_strict=True, caveats=["latency: noisy"]) == exits.INVALID


def test_caveats_of_tables_without_rows_are_no_caveats_of_the_result() -> None:
    noisy = {"caveats": ("r0: noisy",)}
    empty = LATENCY.model_copy(update={"name": "layers", "rows": (), **noisy})
    assert caveats_of(tables(LATENCY, empty)) == []
    assert caveats_of(tables(LATENCY.model_copy(update=noisy), empty)) == ["latency: r0: noisy"]
    both = [LATENCY.model_copy(update={"name": name, **noisy}) for name in ("latency", "levels")]
    assert caveats_of(tables(*both)) == ["r0: noisy"]


def test_notes_of_runs_are_printed_but_not_the_cause_of_the_evaluation_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    noted = status(cause="no memory", level_note="no layers", caveats=("noisy", "few"))
    print_run_notes(noted)
    said = capsys.readouterr()
    notes = ["no memory", "no layers", "noisy", "few"]
    assert said.err.splitlines() == [f"r1 (recorded): {note}" for note in notes]
    assert said.out == ""
    print_run_notes(noted.model_copy(update={"cause": "no memory"}))
    assert "no memory" not in capsys.readouterr().err


def test_why_there_is_no_result_is_printed_with_the_reason_of_each_agent(
    capsys: pytest.CaptureFixture[str],
) -> None:
    reasons = (AgentReason(agent="a1", reason="too small"), AgentReason(agent="a2", reason="gone"))
    failed = status().model_copy(update={"state": "failed", "cause": "", "refusals": reasons})
    print_failure(failed)
    lines = [f"{E} failed: no cause given", "  a1: too small", "  a2: gone"]
    assert capsys.readouterr().err.splitlines() == lines


def test_a_cancelled_evaluation_names_the_command_for_its_complete_runs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    ended = {"state": "cancelled", "tables": ()}
    cancelled = status(outcome="completed").model_copy(update=ended)
    print_failure(cancelled)
    soon = f"2 of 2 runs complete, and being analyzed; in a moment: mlscope analyze {E}"
    assert soon in capsys.readouterr().err
    print_failure(cancelled.model_copy(update={"tables": ("latency",)}))
    assert f"2 of 2 runs complete, and analyzed: mlscope analyze {E}" in capsys.readouterr().err
    print_failure(cancelled.model_copy(update={"runs": ()}))
    assert "analyze" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("update", "verdict"),
    [
        ({}, "All answers are right."),
        ({"rows": ()}, ""),
        ({"rows": (), "verdict": "Accuracy is not available: 3 samples lack answers."}, None),
    ],
)
def test_a_verdict_on_accuracy_needs_expected_answers(
    update: dict[str, object], verdict: str | None
) -> None:
    table = ACCURACY.model_copy(update=update)
    assert accuracy_verdict(tables(table)) == (table.verdict if verdict is None else verdict)
    assert accuracy_verdict(tables(LATENCY)) == ""


def test_the_verdict_on_accuracy_ends_a_result_for_people_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    held = tables(LATENCY, ACCURACY)
    write_result(status(), held, "table")
    assert capsys.readouterr().out.endswith("\n\nAll answers are right.\n")
    write_result(status(), held, "csv")
    assert "All answers" not in capsys.readouterr().out


def test_a_named_table_is_the_whole_result_in_every_form(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for form, beginning in (("csv", "run,p50\n"), ("json", "[\n"), ("table", "run")):
        write_result(status(), tables(ACCURACY, LATENCY), form, "latency")
        said = capsys.readouterr().out
        assert said.startswith(beginning), said
        assert "Latency\n" not in said
