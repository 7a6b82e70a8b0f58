"""Make the pictures of text again, with the font that Pillow 13 carries (Aileron, CC0).

Dark letters on paper that is not evenly lit, slightly blurred and grainy, saved as JPEG: what a
photograph of print has.
"""

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

LINES = {
    "greeting": "Hello, world!",
    "numbers": "Total: 1,234.50 EUR",
    "sentence": "The quick brown fox",
    "platform": "benchmark 2026",
}
HEIGHT = 64


def photographed(text: str, seed: int) -> Image.Image:
    """Return a line of text on paper."""
    font = ImageFont.load_default(size=40)
    width = int(font.getlength(text)) + 40
    paper = Image.new("L", (width, HEIGHT), 225)
    ImageDraw.Draw(paper).text((20, 8), text, font=font, fill=40)
    pixels = np.asarray(paper.filter(ImageFilter.GaussianBlur(0.7)), np.float32)
    light = np.linspace(0.85, 1.0, width, dtype=np.float32)
    grain = np.random.default_rng(seed).standard_normal(pixels.shape) * 4
    grey = np.clip(pixels * light + grain, 0, 255).astype(np.uint8)
    return Image.merge(
        "RGB", [Image.fromarray(channel) for channel in (grey, grey, grey // 16 * 15)]
    )


if __name__ == "__main__":
    folder = Path(__file__).parent
    for number, (name, text) in enumerate(LINES.items()):
        picture = photographed(text, number)
        picture.save(folder / f"{name}.jpg", quality=90)
        picture.rotate(180).save(folder / f"{name}_turned.jpg", quality=90)
