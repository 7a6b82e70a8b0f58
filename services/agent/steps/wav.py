"""WAV files: their samples as numbers from -1 to 1, of whole numbers and of floats. Pure."""

import io
import wave

import numpy as np
import numpy.typing as npt

Samples = npt.NDArray[np.float32]
_PCM, _FLOAT, _EXTENSIBLE = 1, 3, 0xFFFE
"""Format numbers of WAV files; an extensible one has the number further on."""


def read_wav(body: bytes) -> tuple[Samples, int]:
    """Return the samples of a WAV file, (channels, length), and how many a second it has.

    Raises ValueError for a broken file, and for a format that is not read here.
    """
    offset, kind = format_of(body)
    if offset:
        # Python's reader accepts PCM only, but its bytes may be those of floats.
        body = body[:offset] + _PCM.to_bytes(2, "little") + body[offset + 2 :]
    try:
        with wave.open(io.BytesIO(body)) as file:
            width, channels, rate_hz = file.getsampwidth(), file.getnchannels(), file.getframerate()
            frames = file.readframes(file.getnframes())
    except (wave.Error, EOFError) as error:
        raise ValueError(f"not a readable WAV file: {error}") from error
    if rate_hz < 1 or len(frames) < width * channels:
        raise ValueError(f"a WAV file with {len(frames)} bytes of sound at {rate_hz} Hz")
    numbers = samples_of(frames[: len(frames) // width * width], width, kind)
    complete = len(numbers) // channels * channels
    return np.ascontiguousarray(numbers[:complete].reshape(-1, channels).T), rate_hz


def format_of(body: bytes) -> tuple[int, int]:
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


def samples_of(frames: bytes, width: int, kind: int) -> Samples:
    """Return the samples in a file's `frames`, all channels in turn, from their bytes.

    `width` is the bytes of a sample, and `kind` the format's number (see `format_of`). Whole
    numbers become -1 to 1. Raises ValueError for floats of another width than 4 and 8.
    """
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
