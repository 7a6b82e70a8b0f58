"""audio_decode, resample, waveform: files of sound."""

import io
import struct
import wave
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.agent.steps.operators.sound import Sound
from tests.services.agent.steps.applying import apply


def wav(frames: bytes, *, width: int = 2, channels: int = 1, rate_hz: int = 8000) -> bytes:
    """Return a WAV file."""
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setparams((channels, width, rate_hz, 0, "NONE", ""))
        writer.writeframes(frames)
    return file.getvalue()


@pytest.mark.parametrize(
    ("width", "frames", "values"),
    [
        (1, bytes([0, 128, 255]), [-1, 0, 127 / 128]),
        (2, np.array([-32768, 0, 16384], "<i2").tobytes(), [-1, 0, 0.5]),
        (3, b"\x00\x00\x80\x00\x00\x00\x00\x00\x40", [-1, 0, 0.5]),
        (4, np.array([-(2**31), 0, 2**30], "<i4").tobytes(), [-1, 0, 0.5]),
    ],
)
def test_every_width_becomes_a_share_of_the_greatest(
    width: int, frames: bytes, values: list[float]
) -> None:
    sound = apply("audio_decode", wav(frames, width=width))
    assert sound.rate_hz == 8000
    assert sound.samples.tolist() == [values]


def test_channels_are_kept_or_their_mean_taken() -> None:
    frames = np.array([[8192, 16384], [0, -16384]], "<i2").tobytes()
    body = wav(frames, channels=2)
    assert apply("audio_decode", body, channels="all").samples.tolist() == [[0.25, 0], [0.5, -0.5]]
    assert apply("audio_decode", body).samples.tolist() == [[0.375, -0.25]]


@pytest.mark.parametrize("body", [b"", b"RIFF", b"text", wav(b"")])
def test_a_broken_file_is_no_good(body: bytes) -> None:
    with pytest.raises(ValueError, match="WAV file"):
        apply("audio_decode", body)


@pytest.mark.parametrize("rates", [(44100, 16000), (8000, 16000), (48000, 16000), (16000, 22050)])
def test_resampling_is_scipy_s(rates: tuple[int, int]) -> None:
    signal = pytest.importorskip("scipy.signal")
    samples = np.random.default_rng(3).standard_normal((2, 3001)).astype(np.float32)
    found = apply("resample", Sound(samples, rates[0]), rate_hz=rates[1])
    expected = signal.resample_poly(samples.astype(float), rates[1], rates[0], axis=1)
    assert found.rate_hz == rates[1]
    assert np.abs(found.samples - expected).max() < 1e-5


@given(st.integers(1, 40000), st.integers(4, 50), st.integers(4, 50))
def test_resampling_keeps_the_duration(length: int, old: int, new: int) -> None:
    sound = Sound(np.zeros((1, length % 999 + 1), np.float32), old * 1000)
    found = apply("resample", sound, rate_hz=new * 1000)
    assert found.samples.shape[1] == -(-sound.samples.shape[1] * new // old)


@pytest.mark.parametrize(("length", "values"), [(2, [1, 2]), (5, [1, 2, 3, 0, 0]), (0, [1, 2, 3])])
def test_a_waveform_has_its_length(length: int, values: list[Any]) -> None:
    sound = Sound(np.array([[1, 2, 3]], np.float32), 8000)
    assert apply("waveform", sound, length=length).tolist() == values


def test_two_channels_are_no_waveform() -> None:
    with pytest.raises(ValueError, match="the sound has 2 channels; this step needs one"):
        apply("waveform", Sound(np.zeros((2, 3), np.float32), 8000))


@pytest.mark.parametrize(("width", "kind"), [(4, 3), (8, 3), (2, 1)])
@pytest.mark.parametrize("is_extensible", [False, True])
def test_floats_and_longer_heads_are_read(width: int, kind: int, is_extensible: bool) -> None:
    values = [-1.0, 0.0, 0.5, 0.25]
    made = np.array(values, f"<f{width}") if kind == 3 else (np.array(values) * 32768).astype("<i2")
    head = [0xFFFE if is_extensible else kind, 2, 8000, 16000 * width, 2 * width, 8 * width]
    told = struct.pack("<HHIIHH", *head)
    if is_extensible:
        rest = bytes.fromhex("000000001000800000aa00389b71")
        told += struct.pack("<HHIH", 22, 8 * width, 3, kind) + rest
    chunks = [(b"fmt ", told), (b"data", made.tobytes())]
    body = b"".join(name + struct.pack("<I", len(each)) + each for name, each in chunks)
    sound = apply(
        "audio_decode", b"RIFF" + struct.pack("<I", 4 + len(body)) + b"WAVE" + body, channels="all"
    )
    assert sound.samples.tolist() == [[-1.0, 0.5], [0.0, 0.25]]
