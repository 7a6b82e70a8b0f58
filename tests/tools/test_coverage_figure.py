"""The README's coverage figure is replaced, once."""

import pytest

from tools.coverage_figure import README, with_figure


def test_the_readme_has_a_figure_that_is_replaced() -> None:
    text = with_figure(README.read_text("utf-8"), 7)
    assert "run 7% of the product's lines and branches" in " ".join(text.split())


@pytest.mark.parametrize("count", [0, 2])
def test_no_figure_or_two_are_refused(count: int) -> None:
    with pytest.raises(ValueError, match=f"{count} coverage figures"):
        with_figure("90% of the product's lines and branches\n" * count, 7)
