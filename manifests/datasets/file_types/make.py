"""Make the files again: one of each of a few kinds, their names without an ending."""

import io
import json
import sqlite3
import tempfile
import wave
import zipfile
from pathlib import Path

from PIL import Image

TEXTS = {
    "python": '''"""Counts words."""

import sys
from collections import Counter


def count(text: str) -> Counter[str]:
    """Return how often each word is in a text."""
    return Counter(text.lower().split())


if __name__ == "__main__":
    for word, times in count(sys.stdin.read()).most_common(10):
        print(f"{times:6} {word}")
''',
    "html": """<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>Results</title></head>
<body><h1>Results</h1><p>Latency is <b>4.2 ms</b>.</p><ul><li>one</li><li>two</li></ul></body>
</html>
""",
    "shell": """#!/usr/bin/env bash
set -euo pipefail
for file in "$@"; do
    if [[ -f "$file" ]]; then
        echo "$(wc -l < "$file") $file"
    fi
done | sort -n
""",
    "rust": """use std::collections::HashMap;

fn main() {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for word in "a b a".split_whitespace() {
        *counts.entry(word).or_insert(0) += 1;
    }
    println!("{counts:?}");
}
""",
    "sql": """CREATE TABLE run (id bigint PRIMARY KEY, model text NOT NULL, latency_ns bigint);
SELECT model, avg(latency_ns) AS mean FROM run WHERE latency_ns > 0 GROUP BY model ORDER BY mean;
""",
    "json": json.dumps({"model": "identity", "runs": [{"latency_ns": 4200, "failed": False}] * 3}),
}


def png() -> bytes:
    """Return a picture of a gradient."""
    file = io.BytesIO()
    Image.linear_gradient("L").save(file, "PNG")
    return file.getvalue()


def zipped() -> bytes:
    """Return an archive of one file."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("notes.txt"), "notes of a run\n" * 40)
    return file.getvalue()


def sound() -> bytes:
    """Return a tenth of a second of a saw-tooth."""
    file = io.BytesIO()
    with wave.open(file, "wb") as written:
        written.setnchannels(1)
        written.setsampwidth(2)
        written.setframerate(16_000)
        written.writeframes(bytes(range(200)) * 16)
    return file.getvalue()


def database() -> bytes:
    """Return a database of one table."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "one.db"
        with sqlite3.connect(path) as session:
            session.execute("CREATE TABLE run (id INTEGER PRIMARY KEY, model TEXT)")
            session.execute("INSERT INTO run (model) VALUES ('identity')")
        session.close()
        return path.read_bytes()


if __name__ == "__main__":
    folder = Path(__file__).parent
    for name, text in TEXTS.items():
        (folder / name).write_text(text, "utf-8")
    for name, body in {"png": png(), "zip": zipped(), "wav": sound(), "sqlite": database()}.items():
        (folder / name).write_bytes(body)
