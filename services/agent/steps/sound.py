"""audio_decode, resample and waveform: a file's bytes to samples of sound."""

import io
import math
import wave
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from services.agent.steps.parameters import Parameters

Samples = npt.NDArray[np.float32]
_AT_ONCE = 1 << 14
"""Samples resampled at a time: bounds the windows of a long recording."""
_PCM, _FLOAT, _EXTENSIBLE = 1, 3, 0xFFFE
"""Kinds of samples as WAV files number them; the last says the kind further on."""


@dataclass(frozen=True, slots=True)
class Sound:
    """Samples (channels, length) from -1 up to 1, at `rate_hz`."""

    samples: Samples
    rate_hz: int


def audio_decode(parameters: Parameters) -> Callable[[bytes], Sound]:
    """Return WAV bytes (PCM of 8, 16, 24, 32 bits, or floats) -> `Sound`, samples from -1 to 1.

    Whole numbers are divided by 2^(bits - 1), 8 bits first moved by -128; floats of 32 or 64 bits
    are taken as they are. `channels` mono takes
    the mean of all channels, all keeps them. A broken file raises ValueError.
    """
    mono = parameters.choice("channels", ("mono", "all"), "mono") == "mono"

    def apply(body: bytes) -> Sound:
        sound = _read(body)
        if not mono:
            return sound
        return Sound(sound.samples.mean(axis=0, keepdims=True, dtype=np.float32), sound.rate_hz)

    return apply


def resample(parameters: Parameters) -> Callable[[Sound], Sound]:
    """Return `Sound` -> `Sound` at `rate_hz`: ceil(length · new / old) samples a channel.

    A polyphase filter: Kaiser window of beta 5, 10 zero crossings a side, cut at the lower rate's
    half. Within 1e-5 of scipy.signal.resample_poly.
    """
    rate_hz = parameters.whole("rate_hz", default=16_000)

    def apply(sound: Sound) -> Sound:
        shared = math.gcd(rate_hz, sound.rate_hz)
        up, down = rate_hz // shared, sound.rate_hz // shared
        if up == down:
            return sound
        rows = [_resampled(row, up, down) for row in sound.samples]
        return Sound(np.stack(rows), rate_hz)

    return apply


def waveform(parameters: Parameters) -> Callable[[Sound], Samples]:
    """Return `Sound` of one channel -> float32 (length,), cut, or with 0 behind.

    Without `length` it is as long as it is.
    """
    length = parameters.whole("length", default=0, least=0)

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
        raise ValueError(f"{len(sound.samples)} channels of sound, one is needed: decode to mono")
    samples: Samples = sound.samples[0]
    return samples


def _read(body: bytes) -> Sound:
    at, kind = _format(body)
    if at:
        # The reader knows whole numbers alone, and reads the bytes of floats as well.
        body = body[:at] + _PCM.to_bytes(2, "little") + body[at + 2 :]
    try:
        with wave.open(io.BytesIO(body)) as file:
            width, channels, rate_hz = file.getsampwidth(), file.getnchannels(), file.getframerate()
            frames = file.readframes(file.getnframes())
    except (wave.Error, EOFError) as error:
        raise ValueError(f"not a readable WAV file: {error}") from error
    if rate_hz < 1 or len(frames) < width * channels:
        raise ValueError(f"a WAV file of {len(frames)} bytes of sound at {rate_hz} Hz")
    scaled = _scaled(frames[: len(frames) // width * width], width, is_float=kind == _FLOAT)
    usable = len(scaled) // channels * channels
    return Sound(np.ascontiguousarray(scaled[:usable].reshape(-1, channels).T), rate_hz)


def _format(body: bytes) -> tuple[int, int]:
    """Return where a WAV file says what its samples are, and what: 0, 0 where it does not."""
    at = 12
    while at + 26 <= len(body):
        size = int.from_bytes(body[at + 4 : at + 8], "little")
        if body[at : at + 4] == b"fmt ":
            kind = int.from_bytes(body[at + 8 : at + 10], "little")
            if kind == _EXTENSIBLE and size >= 40:
                kind = int.from_bytes(body[at + 32 : at + 34], "little")
            return (at + 8, kind) if kind in (_PCM, _FLOAT) else (0, 0)
        at += 8 + size + size % 2
    return 0, 0


def _scaled(frames: bytes, width: int, *, is_float: bool) -> Samples:
    """Return the samples of all channels in turn. Raises ValueError."""
    if is_float:
        if width not in (4, 8):
            raise ValueError(f"a WAV file of floats of {8 * width} bits")
        return np.frombuffer(frames, f"<f{width}").astype(np.float32)
    raw = np.frombuffer(frames, np.uint8).reshape(-1, width)
    if width == 1:
        whole = raw[:, 0].astype(np.int32) - 128
    else:
        # The bytes as the high ones of 32 bits, so that the sign is where it belongs.
        wide = np.zeros((len(raw), 4), np.uint8)
        wide[:, 4 - width :] = raw
        whole = wide.view("<i4")[:, 0] >> (32 - 8 * width)
    scaled: Samples = (whole / 2.0 ** (8 * width - 1)).astype(np.float32)
    return scaled


def _resampled(row: Samples, up: int, down: int) -> Samples:
    taps, half = _filter(up, down)
    wide = -(-len(taps) // up)
    # Row p of `phases` has the taps that meet samples when an output lies p/up behind one.
    phases = np.zeros(wide * up)
    phases[: len(taps)] = taps
    phases = phases.reshape(wide, up).T[:, ::-1]
    count = -(-len(row) * up // down)
    padded = np.pad(row.astype(np.float64), (wide - 1, wide + half // up + 1))
    windows = np.lib.stride_tricks.sliding_window_view(padded, wide)
    out = np.empty(count, np.float32)
    for first in range(0, count, _AT_ONCE):
        at = np.arange(first, min(first + _AT_ONCE, count)) * down + half
        out[first : first + len(at)] = np.einsum("nk,nk->n", windows[at // up], phases[at % up])
    return out


def _filter(up: int, down: int) -> tuple[npt.NDArray[np.float64], int]:
    """Return a low pass's taps, summing up to `up`, and its middle (scipy.signal.firwin)."""
    most = max(up, down)
    half = 10 * most
    at = np.arange(-half, half + 1)
    taps = np.sinc(at / most) * np.kaiser(2 * half + 1, 5.0)
    return taps * (up / taps.sum()), half
