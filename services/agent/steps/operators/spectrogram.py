"""spectrogram: sound to energy by frequency and time."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from services.agent.errors import BadParameter
from services.agent.steps.mel import Matrix, MelBands, mel_bank
from services.agent.steps.operators.sound import Sound, one_channel
from services.agent.steps.parameters import Parameters
from services.agent.steps.wav import Samples

_LOGS = ("none", "ln", "log10", "db", "whisper")


def spectrogram(parameters: Parameters) -> Callable[[Sound], Samples]:
    """Return `Sound` of one channel -> float32 (bands, frames) of energies.

    Energies are |STFT|² of Hann windows of `window` samples, one every `hop` samples, with the ends
    mirrored by half a window: 1 + length // hop frames, within 1e-4 (relative) of torch.stft. With
    `mels` they are summed into that many triangular bands between `low_hz` and `high_hz` (0: half
    the rate) on the `scale` slaney or htk, which have equal areas with `norm` slaney (the
    definitions of librosa and torchaudio). `log` is none, ln, log10, db (10·log10), each of at
    least `floor`, or whisper (log10, at most 8 below the maximum, (x + 4) / 4, without the last
    frame).
    """
    window = parameters.integer("window", default=400, minimum=2)
    hop = parameters.integer("hop", default=160)
    bands = MelBands(
        parameters.integer("mels", default=0, minimum=0),
        parameters.number("low_hz", default=0.0, minimum=0.0),
        parameters.number("high_hz", default=0.0, minimum=0.0),
        parameters.choice("scale", ("slaney", "htk"), "slaney"),
        parameters.choice("norm", ("slaney", "none"), "slaney") == "slaney",
    )
    log = parameters.choice("log", _LOGS, "none")
    floor = parameters.number("floor", default=1e-10, minimum=0.0)
    if log != "none" and not floor:
        raise BadParameter("spectrogram", "floor", floor, "above 0 with log")
    banks: dict[int, Matrix] = {}

    def apply(sound: Sound) -> Samples:
        samples, half = one_channel(sound), window // 2
        if len(samples) <= half:
            raise ValueError(f"{len(samples)} samples are too few for a window of {window}")
        padded = np.pad(samples.astype(np.float64), half, mode="reflect")
        windows = np.lib.stride_tricks.sliding_window_view(padded, window)[::hop]
        hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(window) / window)
        spectrum = np.fft.rfft(windows * hann, axis=1)
        energies: Matrix = (spectrum.real**2 + spectrum.imag**2).T
        if bands.count:
            if sound.rate_hz not in banks:
                frequencies = np.arange(half + 1) * sound.rate_hz / window
                banks[sound.rate_hz] = mel_bank(bands, frequencies, sound.rate_hz)
            energies = banks[sound.rate_hz] @ energies
        return _logarithm(energies, log, floor).astype(np.float32)

    return apply


def _logarithm(energies: Matrix, log: str, floor: float) -> npt.NDArray[Any]:
    if log == "none":
        return energies
    if log == "ln":
        return np.asarray(np.log(np.maximum(energies, floor)))
    if log == "whisper":
        logs = np.log10(np.maximum(energies[:, :-1], floor))
        return np.asarray((np.maximum(logs, logs.max() - 8.0) + 4.0) / 4.0)
    return np.asarray(np.log10(np.maximum(energies, floor)) * (10.0 if log == "db" else 1.0))
