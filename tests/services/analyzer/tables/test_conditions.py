"""Conditions: a row a run that counts, with what the agent said and what a reader must know."""

import json

from services.analyzer.tables.conditions import ANALYSIS
from tests.services.analyzer.tables.reading import rows_of, table_of


def test_what_the_agent_told_is_there() -> None:
    told = {"threads": 2, "precision": "float32", "noise": {"major_faults": 0}, "seed": 7}
    (row,) = rows_of(table_of(ANALYSIS, {"run": "r0", "conditions": told, "level": 2}))
    assert (row["threads"], row["precision"], row["seed"]) == (2, "float32", 7)
    assert json.loads(row["noise"]) == {"major_faults": 0}
    assert row["level"] == "model"


def test_how_calls_overlap_and_where_their_inputs_are_is_there() -> None:
    names = ("calls_in_flight", "host_memory", "output_memory", "copies", "prepare_processes")
    told = dict(zip(names, (2, "page-locked", "pageable", "together", 3), strict=True))
    new, old = rows_of(table_of(ANALYSIS, {"run": "r0", "conditions": told}, {"run": "r1"}))
    assert {name: new[name] for name in names} == told
    # A record of release 0.1 has none of them.
    assert [old[name] for name in names] == [1, "", "", "", None]


def test_notes_say_how_it_ended_and_how_noisy_it_was() -> None:
    run = {"run": "r0", "end": "failed", "message": "no file", "level_note": "no deeper"}
    noise = {"issue_lateness_p99_ns": 2_000_000}
    lost = {"dropped_batches": 3, "caveats": ["said by the agent"], "conditions": {"noise": noise}}
    table = table_of(ANALYSIS, run | lost)
    notes = rows_of(table)[0]["note"].split("; ")
    ended = ["said by the agent", "failed: no file", "no deeper"]
    assert notes[:4] == [*ended, "3 batches were lost at the agent"]
    assert notes[4].startswith("noisy: ")
    assert list(table.caveats) == [f"r0: {note}" for note in notes]


def test_a_clock_that_is_off_is_a_note() -> None:
    hour_ns = 3_600_000_000_000
    behind = {"clock_offset_ns": hour_ns, "clock_bound_ns": 250_000}
    ahead = {"clock_offset_ns": -hour_ns, "clock_bound_ns": 250_000}
    good = {"clock_offset_ns": -2_000_000, "clock_bound_ns": 250_000}
    runs = [{"run": f"r{n}", "conditions": told} for n, told in enumerate((behind, ahead, good))]
    rows = rows_of(table_of(ANALYSIS, *runs))
    assert [row["clock_offset_ns"] for row in rows] == [hour_ns, -hour_ns, -2_000_000]
    assert "was 3,600 s behind the cluster's, to within 250 µs:" in rows[0]["note"]
    assert " ahead of the cluster's" in rows[1]["note"]
    assert rows[2]["note"] == ""


def test_the_verdict_counts_good_runs() -> None:
    verdict = table_of(
        ANALYSIS, {"run": "r0", "agent": "b"}, {"run": "r1", "agent": "a", "end": "failed"}
    ).verdict
    assert verdict == "1 of 2 runs completed, on a, b."
