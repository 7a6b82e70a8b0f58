"""Exit codes: each has one meaning, and no two are alike."""

from cli import exits


def test_every_code_has_a_meaning() -> None:
    codes = {value for name, value in vars(exits).items() if name.isupper() and name != "MEANINGS"}
    assert codes == set(exits.MEANINGS)
    assert len(set(exits.MEANINGS.values())) == len(codes)


def test_a_meaning_starts_with_its_word() -> None:
    words = [text.partition(":")[0] for text in exits.MEANINGS.values()]
    assert words == [
        "done",
        "failed",
        "usage",
        "gate",
        "auth",
        "no agent",
        "invalid",
        "interrupted",
    ]
