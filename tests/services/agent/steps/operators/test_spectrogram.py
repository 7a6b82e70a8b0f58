"""spectrogram: energies by time and frequency."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.agent.errors import BadParameter
from services.agent.steps.operators.sound import Sound
from tests.services.agent.steps.applying import apply


def a_sound(length: int = 4000, hertz: float = 1000.0) -> Sound:
    """Return a tone in a little noise, at 16 kHz."""
    noise = np.random.default_rng(5).standard_normal(length) / 10
    tone = np.sin(2 * np.pi * hertz * np.arange(length) / 16000)
    return Sound((tone + noise)[None].astype(np.float32), 16000)


def test_energies_are_torch_s() -> None:
    torch = pytest.importorskip("torch")
    sound = a_sound()
    window = torch.hann_window(400)
    expected = torch.stft(
        torch.from_numpy(sound.samples[0]), 400, 160, window=window, return_complex=True
    )
    found = apply("spectrogram", sound)
    assert np.allclose(found, expected.abs().numpy() ** 2, rtol=1e-3, atol=1e-3)


@given(st.integers(250, 3000), st.integers(1, 400), st.integers(1, 40))
def test_the_shape_is_bands_by_frames(length: int, hop: int, mels: int) -> None:
    found = apply("spectrogram", a_sound(length), hop=hop, mels=mels)
    assert found.shape == (mels, 1 + length // hop)
    assert found.dtype == np.float32


@pytest.mark.parametrize("scale", ["slaney", "htk"])
def test_a_tone_is_loudest_in_its_band(scale: str) -> None:
    found = apply("spectrogram", a_sound(hertz=2000.0), mels=40, scale=scale, norm="none")
    if scale == "slaney":
        tone, most = 15 + 27 * np.log(np.array([2, 8])) / np.log(6.4)
    else:
        tone, most = 2595 * np.log10(1 + np.array([2000, 8000]) / 700)
    band = tone / most * 41 - 1
    assert abs(found.mean(axis=1).argmax() - band) < 1


def test_triangles_have_equal_area_when_normed() -> None:
    flat = Sound(np.zeros((1, 4000), np.float32), 16000)
    flat.samples[0, 2000] = 1.0
    by_band = apply("spectrogram", flat, mels=20, window=1024).max(axis=1)
    assert by_band.max() / by_band.min() < 1.3


def test_logarithms_are_of_the_energies() -> None:
    sound = a_sound()
    energies = apply("spectrogram", sound, mels=10)
    assert np.allclose(
        apply("spectrogram", sound, mels=10, log="db"), 10 * np.log10(energies), atol=1e-4
    )
    assert np.allclose(apply("spectrogram", sound, mels=10, log="ln"), np.log(energies), atol=1e-4)
    whisper = apply("spectrogram", sound, mels=10, log="whisper")
    assert whisper.shape[1] == energies.shape[1] - 1
    assert np.ptp(whisper) <= 2.0 + 1e-6


def test_what_is_too_short_or_nonsense_is_no_good() -> None:
    with pytest.raises(ValueError, match="too few for a window of 400"):
        apply("spectrogram", a_sound(100))
    with pytest.raises(ValueError, match="mel bands from"):
        apply("spectrogram", a_sound(), mels=3, low_hz=9000.0)
    with pytest.raises(BadParameter, match="floor must be above 0"):
        apply("spectrogram", None, log="db", floor=0)
