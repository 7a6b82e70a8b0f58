"""What a question to a service finds where broker, key or memory cannot be read."""

import socket
import threading
from pathlib import Path

from mlscope.health import Announced, count_silence, hear
from mlscope.settings import Settings


def test_what_greets_as_no_broker_does_is_no_broker(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    Announced("x1", 1).write(ready)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def greet() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"INFO no JSON\r\n")

        greeter = threading.Thread(target=greet)
        greeter.start()
        url = f"nats://127.0.0.1:{server.getsockname()[1]}"
        assert hear(Settings(nats_url=url, ready_file=ready), "registry") == "no broker"
        greeter.join()


def test_a_key_that_is_no_text_finds_no_broker(tmp_path: Path) -> None:
    ready, seed = tmp_path / "ready", tmp_path / "registry.nk"
    Announced("x1", 1).write(ready)
    seed.write_bytes(b"\xff")
    settings = Settings(nats_seed_file=seed, ready_file=ready)
    assert hear(settings, "registry") == "no broker"


def test_a_count_that_a_full_disk_left_empty_begins_anew(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    (tmp_path / "ready.silent").touch()
    assert [count_silence(ready, "silent") for _ in range(3)] == [1, 2, 3]
    assert count_silence(ready, "answers") == 0
    assert not (tmp_path / "ready.silent").exists()
