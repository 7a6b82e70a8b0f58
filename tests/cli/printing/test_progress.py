"""Progress on stderr: a live line on a terminal, plain lines elsewhere, never too many."""

import io
from dataclasses import replace

from cli.printing.progress import LatestReadings, ProgressLine, fitting, progress_text
from mlscope.client.meter import Reading
from mlscope.client.watching import Progress
from mlscope.evaluation.fold import fold
from mlscope.evaluation.status import status_of
from schemas.message import Fact
from tests.cli.printing.terminal import Terminal
from tests.stories import a_run, beginning, whole_story


def progress_after(facts: list[Fact], **readings: Reading) -> Progress:
    return Progress(status_of(fold(facts)), "", readings)


def test_plain_lines_come_with_changes_and_seldom_without() -> None:
    now, out = [0.0], io.StringIO()
    with ProgressLine(out, clock=lambda: now[0]) as line:
        for second in range(31):
            now[0] = second
            line.show(progress_after(beginning()))
        line.show(progress_after([*beginning(), a_run("r0")[0]]))
        for second in range(31, 37):
            now[0] = second
            reading = Reading("r0", 1, second, 0, 120, 5_000_000, 9_000_000)
            line.show(progress_after([*beginning(), a_run("r0")[0]], r0=reading))
    running = "running  0/2 runs  online batch 1 model"
    waiting = f"{running}  preparing the model"
    lines = ["planned  0/2 runs"] * 2 + [waiting, f"{running}  35 queries  p50 5 ms"]
    assert out.getvalue().splitlines() == lines


def test_runs_that_take_turns_are_shown_together() -> None:
    """Their blocks interleave: one line for all, with the first one's median."""
    story = [*beginning(), a_run("r0")[0], a_run("r1")[0]]
    readings = {
        run: Reading(run, 1, 20, 0, 120, median, 9_000_000)
        for run, median in (("r0", 5_000_000), ("r1", 8_000_000))
    }
    told = progress_text(progress_after(story, **readings))
    assert told == "running  0/2 runs  online batch 1 model  40 queries  p50 5 ms"


def test_what_a_plan_notes_is_printed_once_before_its_runs() -> None:
    out = io.StringIO()
    with ProgressLine(out, clock=lambda: 0.0) as line:
        for facts in (beginning(), [*beginning(), a_run("r0")[0]]):
            progress = progress_after(facts)
            noted = progress.status.model_copy(update={"notes": ("its p99 needs more",)})
            line.show(replace(progress, status=noted))
    running = "running  0/2 runs  online batch 1 model  preparing the model"
    planned = "planned  0/2 runs"
    assert out.getvalue().splitlines() == ["note: its p99 needs more", planned, running]


def test_a_line_never_wraps() -> None:
    assert fitting("██░░  ", "running  7 s", 80) == "██░░  running  7 s"
    assert fitting("██░░  ", "running  7 s", 18) == "running  7 s"
    assert fitting("██░░  ", "running  7 s", 12) == "running  7…"


def test_a_terminal_has_one_line_that_is_cleared() -> None:
    out = Terminal()
    with ProgressLine(out, clock=lambda: 7.0) as line:
        reading = Reading("r0", 1, 40, 0, 120, 5_000_000, 9_000_000)
        line.show(progress_after([*beginning(), a_run("r0")[0]], r0=reading))
        line.note("stays")
    assert "\n" not in out.getvalue().replace("stays\n", "")
    assert "40 queries  p50 5 ms" in out.getvalue()
    assert out.getvalue().endswith("\r\x1b[K")


def test_quiet_says_nothing() -> None:
    out = io.StringIO()
    with ProgressLine(out, quiet=True) as line:
        line.note("x")
        line.show(progress_after(whole_story()))
    assert out.getvalue() == ""


def test_a_pipe_hears_nothing_between_two_runs() -> None:
    first, second = a_run("r0"), a_run("r1")
    story = [*beginning(), *first, second[0]]
    out = io.StringIO()
    with ProgressLine(out, clock=lambda: 0.0) as line:
        for count in range(len(beginning()), len(story) + 1):
            line.show(progress_after(story[:count]))
    said = out.getvalue().splitlines()
    assert "running  1/2 runs" not in said
    assert len(said) == 3, said


def test_what_was_heard_of_a_cancelled_evaluation_is_kept() -> None:
    latest, shown_states = LatestReadings(), []
    show = latest.after(lambda progress: shown_states.append(progress.status.state))
    facts = [*beginning(), a_run("r0")[0]]
    show(progress_after(facts, r0=Reading("r0", 1, 92, 1, 0, 5_000_000, 9_000_000, 7_000_000)))
    show(progress_after(facts, r1=Reading("r1", 1, 0, 0, 0, -1, -1)))
    assert shown_states == ["running", "running"]
    assert list(latest.lines("abc")) == [
        "  r0: 92 queries, 1 failed, p50 5 ms, p90 7 ms (live, not analyzed)",
        "kept: `mlscope show abc` lists its runs, `mlscope open abc` its page",
    ]
