"""Progress of a transfer: a line that is rewritten on a terminal, one line at the end elsewhere."""

import io

import pytest

from cli.printing.transfers import TransferLine, transfer_text
from tests.cli.printing.terminal import Terminal


@pytest.mark.parametrize(
    ("done_bytes", "total_bytes", "text"),
    [
        (0, None, "m.onnx  0 B"),
        (2_000_000, 0, "m.onnx  2 MB"),
        (1_000, 4_000, "m.onnx  [######..................] 1 kB of 4 kB"),
        (4_000, 4_000, f"m.onnx  [{'#' * 24}] 4 kB of 4 kB"),
        (9_000, 4_000, f"m.onnx  [{'#' * 24}] 9 kB of 4 kB"),
    ],
)
def test_the_bar_needs_a_known_size_and_never_overflows(
    done_bytes: int, total_bytes: int | None, text: str
) -> None:
    assert transfer_text("m.onnx", done_bytes, total_bytes) == text


def test_a_pipe_has_one_line_when_all_is_there() -> None:
    out = io.StringIO()
    with TransferLine(out, "m.onnx") as line:
        line.show(1_000, 4_000)
        line.show(4_000, 4_000)
        assert out.getvalue() == ""
    assert out.getvalue() == "m.onnx  4 kB\n"


def test_a_terminal_is_rewritten_ten_times_a_second_at_most() -> None:
    times = iter((0.0, 0.05, 1.0, 1.05, 2.0))
    out = Terminal()
    with TransferLine(out, "m.onnx", lambda: next(times)) as line:
        for done_bytes in (500, 1_000, 1_500, 4_000):
            line.show(done_bytes, 4_000)
    assert [text.split("] ")[-1] for text in out.getvalue().split("\r\x1b[K")[1:]] == [
        "1 kB of 4 kB  1 kB/s",
        "4 kB of 4 kB  2 kB/s",
        "m.onnx  4 kB\n",
    ]


def test_a_transfer_that_fails_leaves_no_line_that_says_it_is_done() -> None:
    out = Terminal()

    def send() -> None:
        with TransferLine(out, "m.onnx") as line:
            line.show(1_000, 4_000)
            raise OSError("disk full")

    with pytest.raises(OSError, match="full"):
        send()
    assert out.getvalue() == "\r\x1b[K"
