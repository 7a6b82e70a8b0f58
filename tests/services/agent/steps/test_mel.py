"""The mel scales: known values, and back."""

import numpy as np
import pytest

from services.agent.steps.mel import hertz_of, mel_of


@pytest.mark.parametrize(
    ("scale", "hertz", "mel"),
    [("slaney", 200.0, 3.0), ("slaney", 1000.0, 15.0), ("slaney", 6400.0, 42.0), ("htk", 0.0, 0.0)],
)
def test_known_frequencies_have_their_place(scale: str, hertz: float, mel: float) -> None:
    assert mel_of(np.array([hertz]), scale) == pytest.approx(mel)
    assert hertz_of(np.array([mel]), scale) == pytest.approx(hertz)


@pytest.mark.parametrize("scale", ["slaney", "htk"])
def test_there_and_back_is_where_one_was(scale: str) -> None:
    hertz = np.linspace(0.0, 24_000.0, 1001)
    np.testing.assert_allclose(hertz_of(mel_of(hertz, scale), scale), hertz, atol=1e-8)
