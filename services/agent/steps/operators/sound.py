"""audio_decode, resample and waveform: the bytes of a file to samples of sound."""

import io
import math
import wave
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from services.agent.steps.parameters import Parameters

Samples = npt.NDArray[np.float32]
_BLOCK_SAMPLES = 1 << 14
"""Samples resampled at a time, which limits the memory for a long recording."""
_PCM, _FLOAT, _EXTENSIBLE = 1, 3, 0xFFFE
"""Format numbers of WAV files; an extensible one has the number further on."""


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
        offset, kind = _format(body)
        if offset:
            # Python's reader accepts PCM only, but its bytes may be those of floats.
            body = body[:offset] + _PCM.to_bytes(2, "little") + body[offset + 2 :]
        try:
            with wave.open(io.BytesIO(body)) as file:
                width, channels, rate_hz = (
                    file.getsampwidth(),
                    file.getnchannels(),
                    file.getframerate(),
                )
                frames = file.readframes(file.getnframes())
        except (wave.Error, EOFError) as error:
            raise ValueError(f"not a readable WAV file: {error}") from error
        if rate_hz < 1 or len(frames) < width * channels:
            raise ValueError(f"a WAV file with {len(frames)} bytes of sound at {rate_hz} Hz")
        numbers = _numbers(frames[: len(frames) // width * width], width, kind)
        complete = len(numbers) // channels * channels
        samples = np.ascontiguousarray(numbers[:complete].reshape(-1, channels).T)
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
        rows = [_resampled(row, up, down) for row in sound.samples]
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
            f"{len(sound.samples)} channels of sound, one is needed: set channels to mono in "
            "audio_decode"
        )
    samples: Samples = sound.samples[0]
    return samples


def _format(body: bytes) -> tuple[int, int]:
    """Return the offset of a WAV file's format number, and the number; 0, 0 for another format."""
    offset = 12
    while offset + 26 <= len(body):
        size = int.from_bytes(body[offset + 4 : offset + 8], "little")
        if body[offset : offset + 4] == b"fmt ":
            kind = int.from_bytes(body[offset + 8 : offset + 10], "little")
            if kind == _EXTENSIBLE and size >= 40:
                kind = int.from_bytes(body[offset + 32 : offset + 34], "little")
            return (offset + 8, kind) if kind in (_PCM, _FLOAT) else (0, 0)
        offset += 8 + size + size % 2
    return 0, 0


def _numbers(frames: bytes, width: int, kind: int) -> Samples:
    """Return the samples of all channels in turn; whole numbers of `width` bytes become -1 to 1."""
    if kind == _FLOAT:
        if width not in (4, 8):
            raise ValueError(f"a WAV file with floats of {8 * width} bits; 32 or 64 are supported")
        return np.frombuffer(frames, f"<f{width}").astype(np.float32)
    raw = np.frombuffer(frames, np.uint8).reshape(-1, width)
    if width == 1:
        integers = raw[:, 0].astype(np.int32) - 128
    else:
        # The bytes become the high ones of 32 bits, where the sign is.
        wide = np.zeros((len(raw), 4), np.uint8)
        wide[:, 4 - width :] = raw
        integers = wide.view("<i4")[:, 0] >> (32 - 8 * width)
    samples: Samples = (integers / 2.0 ** (8 * width - 1)).astype(np.float32)
    return samples


def _resampled(row: Samples, up: int, down: int) -> Samples:
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
