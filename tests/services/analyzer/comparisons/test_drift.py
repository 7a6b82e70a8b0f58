"""Drift between evaluations: it widens a change, and a verdict says what its interval holds."""

from dataclasses import replace
from typing import Any

import pytest

from services.analyzer.comparisons import comparisons_of
from services.analyzer.comparisons.drift import drift_text
from services.analyzer.comparisons.regressions import COMPARISON
from services.analyzer.comparisons.source import Source, Terms
from tests.services.analyzer.comparisons.reading import batch, rows, source, table_of

MS = 1_000_000
AT_S = {"e1": 1000.0, "e2": 1064.0, "e3": 9000.0}


def _evaluation(name: str, ns: int, **more: Any) -> Source:
    own = source(name, batch(1, ns, wobble=MS // 100, **more))
    return replace(own, began_s=AT_S.get(name), command=f"mlscope run m --label {name}=1")


def _others(*times_ns: int, **more: Any) -> Terms:
    """Return terms with further evaluations whose queries take so long."""
    return Terms(others=[_evaluation(f"o{n}", ns, **more) for n, ns in enumerate(times_ns)])


PAIR = _evaluation("e1", MS), _evaluation("e2", MS * 7 // 10)
DRIFTING = _others(MS, MS * 7 // 10, MS * 13 // 10)


def test_a_change_within_the_drift_of_others_like_them_is_no_change() -> None:
    (alone,), (among,) = rows(COMPARISON, *PAIR), rows(COMPARISON, *PAIR, terms=DRIFTING)
    assert (alone["result"], alone["repeats"], alone["drift_share"]) == ("faster", 0, None)
    assert (among["result"], among["repeats"]) == ("same", 3)
    assert among["change"] == alone["change"]
    ratio, reach = 1 + among["change"], 1 + among["drift_share"]
    ends = (among["change_low"], among["change_high"])
    assert ends == pytest.approx((ratio / reach - 1, ratio * reach - 1))


def test_steady_others_leave_the_interval_of_the_noise() -> None:
    (alone,), (among,) = (
        rows(COMPARISON, *PAIR, terms=terms) for terms in (Terms(), _others(MS, MS, MS))
    )
    assert (among["result"], among["drift_share"]) == ("faster", pytest.approx(0.0))
    assert [among[f"change{end}"] for end in ("", "_low", "_high")] == [
        alone[f"change{end}"] for end in ("", "_low", "_high")
    ]


@pytest.mark.parametrize(
    "more",
    [{"dataset": "other:1"}, {"agent": "b"}, {"conditions": {"threads": 9}}, {"batch_size": 2}],
)
def test_others_of_another_load_or_other_conditions_show_no_drift(more: dict[str, Any]) -> None:
    (row,) = rows(COMPARISON, *PAIR, terms=_others(MS, 2 * MS, 3 * MS, **more))
    assert (row["repeats"], row["drift_share"], row["result"]) == (0, None, "faster")


def test_another_version_is_another_subject() -> None:
    old = _others(2 * MS, 2 * MS, framework_version="1").others
    new = _others(MS, MS, framework_version="2").others
    (row,) = rows(COMPARISON, *PAIR, terms=Terms(others=[*old, *new]))
    assert (row["repeats"], row["drift_share"], row["result"]) == (4, pytest.approx(0.0), "faster")


def test_the_verdict_says_how_far_apart_they_began_and_what_the_interval_holds() -> None:
    alone, among = (table_of(COMPARISON, PAIR, terms) for terms in (Terms(), DRIFTING))
    assert alone.verdict.endswith(
        "; begun 1 minute apart; the interval leaves out drift between evaluations."
    )
    assert among.verdict.endswith("; the interval includes drift between evaluations.")
    assert "it is neither slower nor faster" in among.verdict
    cells = {"lapse_s": 60.0, "drift_share": None, "noisy": ""}
    several = [cells, cells | {"lapse_s": 7300.0, "drift_share": 0.1, "noisy": "both"}]
    assert drift_text(several) == (
        "begun 1 minute to 2 hours apart; 1 of 2 intervals leave out drift between evaluations; "
        "1 of 2 pairs has noisy runs"
    )


def test_a_change_that_may_be_drift_has_the_commands_that_measure_it() -> None:
    (note, _) = table_of(COMPARISON, PAIR).caveats
    assert note == (
        "e2: a change may be drift between the evaluations, as fewer than 3 others like them are "
        "stored; measure again twice each, by turns, and compare again: "
        "`mlscope run m --label e1=1` and `mlscope run m --label e2=1`"
    )
    twice = [replace(own, command="mlscope run m") for own in PAIR]
    assert (
        "measure again 3 times and compare again: `mlscope run m`"
        in (table_of(COMPARISON, twice).caveats[0])
    )
    assert not any("measure again" in note for note in table_of(COMPARISON, PAIR, DRIFTING).caveats)


def test_noisy_runs_are_said_beside_the_verdict() -> None:
    noise = {"conditions": {"noise": {"issue_lateness_p99_ns": 2 * MS}}}
    noisy = _evaluation("e2", MS * 7 // 10, **noise)
    assert [row["noisy"] for row in rows(COMPARISON, PAIR[0], noisy)] == ["second"]
    assert [row["noisy"] for row in rows(COMPARISON, noisy, noisy)] == ["both"]
    assert table_of(COMPARISON, [PAIR[0], noisy]).verdict.endswith("; 1 of 1 pair has noisy runs.")


def test_other_comparisons_say_that_their_intervals_leave_drift_out() -> None:
    tables = {table.name: table for table in comparisons_of(PAIR, Terms())}
    note = "the intervals leave out drift between the evaluations, begun 1 minute apart"
    assert any(caveat.startswith(note) for caveat in tables["systems"].caveats)
    assert not any(caveat.startswith(note) for caveat in tables["regressions"].caveats)
    (alone, *_) = comparisons_of(PAIR[:1], Terms())
    assert not any("leave out drift" in caveat for caveat in alone.caveats)
