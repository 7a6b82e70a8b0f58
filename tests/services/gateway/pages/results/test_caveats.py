"""Caveats by cause: what is alike stands together, and the page says how many there are."""

from services.gateway.pages.results.caveats import causes_of, noise_text

NOISY = "r0, r1: noisy: medians of its parts vary by 13% (over 10%)"
FEW = "r0: 40 answered queries: too few to certify p99 (662)"
TRACED = "r1: predict includes the cost of tracing layers"


def test_caveats_of_one_cause_stand_together() -> None:
    causes = causes_of([FEW, NOISY, "r2: power is the mean of only 3 values", TRACED, "odd"])
    assert [(cause.name, len(cause.lines)) for cause in causes] == [
        ("Noise on the machine", 1),
        ("Too few measurements", 2),
        ("Cost and limits of tracing", 1),
        ("How it was measured", 1),
    ]
    assert causes[1].count_text == "2 caveats"


def test_no_caveat_is_dropped() -> None:
    lines = [NOISY, FEW, TRACED, "plain", "r0: incomplete: no reason"]
    assert sorted(line for cause in causes_of(lines) for line in cause.lines) == sorted(lines)


def test_the_first_caveat_says_what_without_the_runs() -> None:
    [cause] = causes_of([NOISY])
    assert cause.first == "Noisy: medians of its parts vary by 13% (over 10%)"
    [long] = causes_of(["r0: noisy: " + "x" * 300])
    assert len(long.first) == 110


def test_noise_is_said_in_one_sentence() -> None:
    assert noise_text({"r0": ["noisy: x"], "r1": ["quiet"]}) == "1 of 2 runs were noisy."
    assert noise_text({"r0": ["noisy: x"], "r1": ["noisy: y"]}) == "All 2 runs were noisy."
    assert noise_text({"r0": ["noisy: x"]}) == "The run was noisy."
    assert noise_text({"r0": []}) == "No noise was seen."
    assert noise_text({}) == ""
