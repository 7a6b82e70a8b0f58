"""Mel bands: triangles of frequencies, as librosa and torchaudio define them. Pure."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class MelBands:
    """How mel bands are laid out: their number, their bounds in Hz, and the kind of scale."""

    count: int
    low_hz: float
    #: 0: half the rate
    high_hz: float
    #: slaney or htk
    scale: str
    #: whether the bands have equal areas
    is_normed: bool


def mel_bank(bands: MelBands, frequencies: Matrix, rate_hz: int) -> Matrix:
    """Return the weights (bands, frequencies) of triangles on the mel scale.

    `frequencies` are in Hz, those of sound with `rate_hz` samples a second. Raises ValueError for
    `bands` whose lower bound is not below the upper one.
    """
    high_hz = bands.high_hz or rate_hz / 2
    if high_hz <= bands.low_hz:
        raise ValueError(
            f"mel bands from {bands.low_hz:g} to {high_hz:g} Hz: low_hz must be below high_hz"
        )
    low, high = mel_of(np.array([bands.low_hz, high_hz]), bands.scale)
    edges = hertz_of(np.linspace(low, high, bands.count + 2), bands.scale)
    slopes = edges[:, np.newaxis] - frequencies
    widths = np.diff(edges)
    rising = -slopes[:-2] / widths[:-1, np.newaxis]
    falling = slopes[2:] / widths[1:, np.newaxis]
    bank: Matrix = np.maximum(0.0, np.minimum(rising, falling))
    return bank * (2.0 / (edges[2:] - edges[:-2]))[:, np.newaxis] if bands.is_normed else bank


def mel_of(hertz: Matrix, scale: str) -> Matrix:
    """Return frequencies in Hz on the mel scale of a kind.

    HTK: 2595·log10(1 + f/700). Slaney: 3f/200 up to 1 kHz, then 27 mels per factor of 6.4.
    """
    if scale == "htk":
        return np.asarray(2595.0 * np.log10(1.0 + hertz / 700.0))
    above = 15.0 + 27.0 * np.log(np.maximum(hertz, 1000.0) / 1000.0) / np.log(6.4)
    return np.where(hertz < 1000.0, hertz * 3.0 / 200.0, above)


def hertz_of(mel: Matrix, scale: str) -> Matrix:
    """Return the frequencies in Hz of places on the mel scale, the inverse of `mel_of`."""
    if scale == "htk":
        return np.asarray(700.0 * (10.0 ** (mel / 2595.0) - 1.0))
    above = 1000.0 * np.exp((np.maximum(mel, 15.0) - 15.0) * np.log(6.4) / 27.0)
    return np.where(mel < 15.0, mel * 200.0 / 3.0, above)
