"""audio_decode, resample and waveform: the bytes of a file to samples of sound."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from services.agent.steps.parameters import Parameters
from services.agent.steps.wav import Samples, read_wav

_BLOCK_SAMPLES = 1 << 14
"""Samples resampled at a time, which limits the memory for a long recording."""


@dataclass(frozen=True, slots=True)
class Sound:
    """Samples (channels, length) from -1 to 1, with `rate_hz` samples a second."""

    samples: Samples
    rate_hz: int


def audio_decode(parameters: Parameters) -> Callable[[bytes], Sound]:
    """Return WAV bytes (PCM of 8, 16, 24, 32 bits, or floats) -> `Sound`, samples from -1 to 1.

    Whole numbers are divided by 2^(bits - 1), those of 8 bits after subtracting 128; floats of 32
    or 64 bits stay as they are. `channels` mono takes the mean of all channels, all keeps them. A
    broken file raises ValueError.
    """
    mono = parameters.choice("channels", ("mono", "all"), "mono") == "mono"

    def apply(body: bytes) -> Sound:
        samples, rate_hz = read_wav(body)
        if mono:
            samples = samples.mean(axis=0, keepdims=True, dtype=np.float32)
        return Sound(samples, rate_hz)

    return apply


def resample(parameters: Parameters) -> Callable[[Sound], Sound]:
    """Return `Sound` -> `Sound` at `rate_hz`: ceil(length · new / old) samples in each channel.

    A polyphase filter with a Kaiser window of beta 5, 10 zero crossings on each side, and a cutoff
    at half of the lower rate. Within 1e-5 of scipy.signal.resample_poly.
    """
    rate_hz = parameters.integer("rate_hz", default=16_000)

    def apply(sound: Sound) -> Sound:
        shared = math.gcd(rate_hz, sound.rate_hz)
        up, down = rate_hz // shared, sound.rate_hz // shared
        if up == down:
            return sound
        rows = [resampled(row, up, down) for row in sound.samples]
        return Sound(np.stack(rows), rate_hz)

    return apply


def waveform(parameters: Parameters) -> Callable[[Sound], Samples]:
    """Return `Sound` of one channel -> float32 (length,), cut or padded with 0 at the end.

    Without `length` it keeps its own.
    """
    length = parameters.integer("length", default=0, minimum=0)

    def apply(sound: Sound) -> Samples:
        samples = one_channel(sound)
        if not length:
            return samples
        fitted = np.zeros(length, np.float32)
        fitted[: min(length, len(samples))] = samples[:length]
        return fitted

    return apply


def one_channel(sound: Sound) -> Samples:
    """Return the samples (length,). Raises ValueError for several channels."""
    if len(sound.samples) != 1:
        raise ValueError(
            f"the sound has {len(sound.samples)} channels; this step needs one: set channels to "
            "mono in audio_decode"
        )
    samples: Samples = sound.samples[0]
    return samples


def resampled(row: Samples, up: int, down: int) -> Samples:
    """Return one channel, a `row`, at `up` / `down` times its rate; they share no factor."""
    # The taps of a low pass, which sum to `up`, with `half` of them on each side
    # (scipy.signal.firwin).
    period = max(up, down)
    half = 10 * period
    taps = np.sinc(np.arange(-half, half + 1) / period) * np.kaiser(2 * half + 1, 5.0)
    taps *= up / taps.sum()
    width = -(-len(taps) // up)
    # Row p of `phases` has the taps for an output that lies p / up behind a sample.
    phases = np.zeros(width * up)
    phases[: len(taps)] = taps
    phases = phases.reshape(width, up).T[:, ::-1]
    count = -(-len(row) * up // down)
    padded = np.pad(row.astype(np.float64), (width - 1, width + half // up + 1))
    windows = np.lib.stride_tricks.sliding_window_view(padded, width)
    out = np.empty(count, np.float32)
    for first in range(0, count, _BLOCK_SAMPLES):
        at = np.arange(first, min(first + _BLOCK_SAMPLES, count)) * down + half
        out[first : first + len(at)] = np.einsum("nk,nk->n", windows[at // up], phases[at % up])
    return out
