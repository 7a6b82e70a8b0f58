"""The small files in which the kernel says what a machine is and does: /proc and /sys."""

from pathlib import Path


def text_of(path: Path) -> str:
    """Return the text of a file without white space around it; '' where it cannot be read."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
