"""An agent without a broker: the standard library is enough for files of its own."""

import hashlib
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
from pathlib import Path
from mlscope.assets.addresses import parse
from mlscope.assets.cache import Cache
from mlscope.assets.checksums import parse_checksum
from mlscope.assets.fetching import Assets

root = Path(sys.argv[1])
assets = Assets(Cache(root / "cache", 1), root)
with assets.fetch(parse("file:x"), parse_checksum(sys.argv[2])) as held:
    print(held.path.read_text())
heavy = {"nats", "msgpack", "pydantic", "numpy", "yaml", "urllib.request", "ssl", "asyncio"}
print(sorted(heavy & set(sys.modules)))
"""


def test_a_local_file_needs_the_standard_library_alone(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("content")
    command = [sys.executable, "-c", PROGRAM, str(tmp_path), hashlib.sha256(b"content").hexdigest()]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["content", "[]"]
