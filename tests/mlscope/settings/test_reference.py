"""Every setting has a name and a meaning, and a misspelt variable is found."""

from mlscope.settings.reference import documentation, unknown_variables


def test_every_setting_says_what_it_means() -> None:
    rows = documentation()
    assert len({variable for variable, _, _ in rows}) == len(rows)
    assert all(variable.startswith("MLSCOPE_") and meaning for variable, _, meaning in rows)


def test_a_misspelt_variable_is_found() -> None:
    assert unknown_variables({"MLSCOPE_NATS_ULR": "x", "MLSCOPE_DATA": "y", "HOME": "/"}) == [
        "MLSCOPE_NATS_ULR"
    ]
