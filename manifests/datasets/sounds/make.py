"""Make the sounds again: one second each, 16 kHz, 16 bits, one channel. Needs NumPy.

A vowel is a train of pulses through three resonances (Fant 1960): what voices have in common,
and nobody's voice. The others are no speech.
"""

import wave
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

RATE_HZ = 16_000
FORMANTS = {
    "vowel_a": ((700, 80), (1220, 90), (2600, 120)),
    "vowel_i": ((300, 60), (2300, 90), (3000, 150)),
}
"""Hertz and bandwidth, by vowel."""
Samples = NDArray[np.float64]


def resonant(sound: Samples, hertz: float, bandwidth: float) -> Samples:
    """Return a sound through one resonance: y[n] = x[n] + 2r·cos(t)·y[n-1] - r²·y[n-2]."""
    r, t = np.exp(-np.pi * bandwidth / RATE_HZ), 2 * np.pi * hertz / RATE_HZ
    answer = np.zeros_like(sound)
    for n, value in enumerate(sound):
        answer[n] = value + 2 * r * np.cos(t) * answer[n - 1] - r * r * answer[n - 2]
    return answer


def vowel(name: str) -> Samples:
    """Return a vowel at 120 Hz."""
    sound = np.zeros(RATE_HZ)
    sound[:: RATE_HZ // 120] = 1.0
    for hertz, bandwidth in FORMANTS[name]:
        sound = resonant(sound, hertz, bandwidth)
    return sound / np.abs(sound).max() * 0.5


def write(name: str, sound: Samples) -> None:
    """Write samples from -1 to 1."""
    with wave.open(str(Path(__file__).with_name(f"{name}.wav")), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE_HZ)
        file.writeframes(np.rint(sound * 32767).astype("<i2").tobytes())


if __name__ == "__main__":
    for name in FORMANTS:
        write(name, vowel(name))
    write("noise", np.random.default_rng(1).standard_normal(RATE_HZ) * 0.1)
    write("tone", np.sin(np.arange(RATE_HZ) * 2 * np.pi * 440 / RATE_HZ) * 0.3)
    write("silence", np.zeros(RATE_HZ))
