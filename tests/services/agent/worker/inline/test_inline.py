"""Inline Python in its own process: what it is given, what it may give, and what ends it."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlscope.tracing.application import USER_SPANS, UserSpan, now_ns
from schemas.level import Level
from schemas.manifest import Step
from schemas.plan import Subject
from services.agent.collectors import CollectorRequest
from services.agent.collectors.nvtx.collector import open_collector
from services.agent.errors import CodeFailed, CodeRaised, CodeRefused
from services.agent.link.allowances import InlineLimits
from services.agent.predictors import Opened
from services.agent.worker.answers.isolate_samples import finish_code_by_sample
from services.agent.worker.inline.inline import InlineCode, check_code, open_inline
from services.agent.worker.inline.process import spans_within_call
from services.agent.worker.seccomp.inline_code import filter_calls
from services.agent.worker.seccomp.installing import FilterMissing, filter_fault
from tests.seccomp import needs_filter
from tests.services.agent.builders import a_subject

pytestmark = needs_filter

LIMITS = InlineLimits(timeout_s=30.0, cpu_s=30)
OPENED = Opened("onnxruntime", "1", (), (), "cpu", "", "float32", 1, {})
ECHO = "def fun(env, data):\n    return data\n"


def with_code(**codes: str) -> Subject:
    """Return the identity model with code."""
    subject = a_subject()
    return subject.model_copy(update={"model": subject.model.model_copy(update=codes)})


@contextmanager
def opened(
    limits: InlineLimits = LIMITS,
    batch_size: int = 2,
    supplied: tuple[str, ...] = ("x",),
    **codes: str,
) -> Iterator[InlineCode]:
    """Lend code that is ready."""
    inline = open_inline(with_code(**codes), batch_size, limits, supplied)
    try:
        yield inline
    finally:
        inline.close()


def prepared(inline: InlineCode, value: Any) -> Any:
    """Take a sample through the code before the model."""
    for operator in inline.before:
        value = operator.apply(value)
    return value


def failure(value: Any, limits: InlineLimits, code: str) -> str:
    """Return how `code` before the model fails with a sample."""
    with opened(limits, preprocess=code) as inline, pytest.raises(CodeFailed) as failed:
        prepared(inline, value)
    return str(failed.value)


def finished(inline: InlineCode, value: Any) -> Any:
    """Take a batch's outputs through the code behind the model."""
    for operator in inline.after:
        value = operator.apply(value)
    return value


def test_code_gets_the_sample_and_what_is_known_of_the_request() -> None:
    code = """
    def fun(env, data):
        return [data.decode(), env["model"], env["batch_size"], env["inputs"][0]["shape"]]
    """
    code = "\n".join(line.removeprefix("    ") for line in code.splitlines())
    with opened(preprocess=code) as inline:
        assert prepared(inline, b"seven") == ["seven", "identity", 2, [-1, 4]]


SPANS = """
from mlscope.tracing import marker, span
def fun(env, data):
    with span("tokenise", words=3):
        marker("cache miss")
    return data
"""


def test_spans_of_code_come_with_its_answer_while_somebody_notes_them() -> None:
    with opened(preprocess=SPANS) as inline:
        prepared(inline, 1)
        USER_SPANS.take()
        USER_SPANS.is_open, began_ns = True, now_ns()
        try:
            prepared(inline, 1)
        finally:
            USER_SPANS.is_open = False
        (miss, tokenise), _ = USER_SPANS.take()
    assert (tokenise.name, tokenise.attributes, miss.is_marker) == ("tokenise", {"words": 3}, True)
    assert began_ns <= tokenise.start_ns <= miss.start_ns <= now_ns()
    assert tokenise.thread == threading.get_native_id()


@pytest.mark.parametrize(
    "note",
    ["x", ["a", 10, 5], ["a", 10, 5.0, {}], [b"a", 10, 5, {}], ["a", 0, 5, {}], ["a", 18, 5, {}]],
)
def test_what_is_no_span_within_its_call_is_left_out(note: Any) -> None:
    assert list(spans_within_call([[note, ["good", 10, -1, {}]]], 5, 20)) == [
        UserSpan("good", 10, -1, threading.get_native_id(), {})
    ]


RANGES = """
import nvtx
DOMAIN = nvtx.get_domain("shop")
LOOK_UP = DOMAIN.get_event_attributes("look up")
@nvtx.annotate("decorated")
def decorated():
    nvtx.mark("here", payload=object())
def fun(env, data):
    with nvtx.annotate("tokenise", payload=3):
        DOMAIN.push_range(LOOK_UP)
        decorated()
        DOMAIN.pop_range()
    nvtx.push_range("left open")
    return data
"""


def test_ranges_of_code_are_those_of_the_collector() -> None:
    collector = open_collector(CollectorRequest(OPENED, Level.APPLICATION))
    with opened(preprocess=RANGES) as inline:
        prepared(inline, 1)
        collector.begin()
        try:
            assert prepared(inline, 1) == 1
            collected = collector.end()
        finally:
            collector.close()
    names = [each.name for each in collected.spans]
    assert names == ["tokenise", "look up", "decorated", "here"]
    assert [each.parent for each in collected.spans] == [-1, 0, 1, 2]
    tokenise, look_up, _, here = (dict(each.attributes or {}) for each in collected.spans)
    assert (tokenise, look_up["domain"]) == ({"source": "nvtx", "payload": 3}, "shop")
    assert here["payload"].startswith("<object")
    assert {each.thread for each in collected.spans} == {threading.get_native_id()}
    assert collected.notes == ("1 ranges did not end in their block",)


def test_ranges_of_code_are_not_heard_where_nobody_listens() -> None:
    with opened(preprocess=RANGES) as inline:
        USER_SPANS.take()
        USER_SPANS.is_open = True
        try:
            prepared(inline, 1)
        finally:
            USER_SPANS.is_open = False
        assert USER_SPANS.take() == ([], 0)


def test_code_behind_gets_the_samples_it_speaks_of() -> None:
    code = "def fun(env, data):\n    return [str(len(each or '')) for each in env['samples']]\n"
    with opened(preprocess=code, before_postprocess=ECHO, postprocess=code) as inline:
        assert [each.wants_samples for each in (*inline.before, *inline.after)] == [0, 1, 0]
        first, second = inline.after
        second_made = second.apply(first.apply(np.zeros(2), [b"seven", None]))
        assert [feature["text"] for (feature,) in second_made] == ["5", "0"]
    with opened(postprocess=f"{ECHO}    # of all samples\n") as inline:
        assert not inline.after[0].wants_samples


def test_code_gets_the_models_further_files() -> None:
    code = "def fun(env, data):\n    return env['assets']['words.txt'].split()[data]\n"
    subject, files = with_code(preprocess=code), {"words.txt": b"one two"}
    inline = open_inline(subject, 1, LIMITS, ("x",), lambda: files)
    try:
        assert prepared(inline, 1) == b"two"
    finally:
        inline.close()


def test_arrays_come_and_go_as_they_are() -> None:
    code = "def fun(env, data):\n    data *= 2\n    return {'x': data, 'n': data.shape[0]}\n"
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    with opened(preprocess=code) as inline:
        made = prepared(inline, array)
        assert (made.dtype, made.tolist()) == (array.dtype, (array * 2).tolist())
    assert array[1, 2] == 5


def test_hooks_run_around_and_may_give_nothing() -> None:
    codes: dict[str, Any] = {
        "before_preprocess": "seen = []\ndef fun(env, data):\n    seen.append(data)\n",
        "preprocess": "def fun(env, data):\n    return data + len(seen)\n",
        "after_preprocess": "def fun(env, data):\n    return [data, list(seen)]\n",
    }
    with opened(**codes) as inline:
        assert [each.name for each in inline.before] == list(codes)
        assert prepared(inline, 5) == [6, [5]]
        assert prepared(inline, 7) == [9, [5, 7]]


def test_code_behind_the_model_gives_an_answer_a_sample() -> None:
    code = """def postprocess(env, data):
    return [{"type": "classification", "label": str(int(row.argmax()))} for row in data]
"""
    with opened(postprocess=code) as inline:
        answers = finished(inline, np.eye(2, 3))
    assert [each[0]["label"] for each in answers] == ["0", "1"]


@pytest.mark.parametrize(
    ("code", "match"),
    [
        ("return data[:1]", "returns 1 answers, but a batch has 2"),
        ("return 7", "returns no list"),
        ("return [[1], [object]]", "a value of type type can't be sent"),
        ("return None", "returned None"),
        ("return [b'ab', 1]", "neither features nor numbers: bytes"),
        ("return [{'type': 'text', 'text': b'ab'}, {}]", r"returns bytes at feature\.text"),
        ("return [{}, {'boxes': [data]}]", r"returns ndarray at feature\.boxes"),
        ("return [{1: 2}, {}]", "a feature whose key is 1, which is not a string"),
        ("return [{'type': [1]}, {}]", r"a feature whose type is \[1\], which is not a string"),
    ],
)
def test_what_is_no_answer_is_told(code: str, match: str) -> None:
    with (
        opened(postprocess=f"def fun(env, data):\n    {code}\n") as inline,
        pytest.raises((ValueError, CodeRaised), match=match),
    ):
        finished(inline, np.eye(2))


def test_code_behind_the_model_is_asked_of_each_sample_alone() -> None:
    code = "def fun(env, data):\n    return [str(1 // int(each)) for each in data]\n"
    with opened(batch_size=3, postprocess=code) as inline:
        found = finish_code_by_sample(
            inline.after, {"y": np.array([1.0, 0.0, -1.0])}, range(3), "abc"
        )
    assert found is not None
    assert found.answers == {n: [{"type": "text", "text": t}] for n, t in ((0, "1"), (2, "-1"))}
    ((place, (name, error)),) = found.errors.items()
    assert (place, name) == (1, "postprocess")
    assert "line 2: ZeroDivisionError" in str(error)


def test_several_inputs_come_as_a_map_or_in_order() -> None:
    code = "def fun(env, data):\n    return [data, data + 1]\n"
    with opened(preprocess=code, supplied=("a", "b")) as inline:
        assert prepared(inline, 1) == {"a": 1, "b": 2}
    with (
        opened(preprocess=ECHO, supplied=("a", "b")) as inline,
        pytest.raises(ValueError, match="a, b"),
    ):
        prepared(inline, 1)


def test_an_error_names_its_line_and_the_next_call_is_right() -> None:
    code = (
        "import json\n\ndef fun(env, data):\n    inner = json.loads(data)\n    return 1 / inner\n"
    )
    with opened(preprocess=code) as inline:
        with pytest.raises(
            CodeRaised, match=r"line 5: ZeroDivisionError: .* in `return 1 / inner`"
        ):
            prepared(inline, "0")
        with pytest.raises(CodeRaised, match=r"line 4: JSONDecodeError"):
            prepared(inline, "{")
        assert prepared(inline, "4") == 0.25


@pytest.mark.parametrize(
    ("code", "match"),
    [
        ("def fun(env, data)\n    return data", "line 1: SyntaxError"),
        ("import no_such_module\n" + ECHO, "line 1: ModuleNotFoundError"),
        ("x = 1\n", "write def fun"),
        ("def other(env, data): ...\n", "write def fun"),
        ("[[code]]", "stands for code"),
        ("...", "stands for code"),
    ],
)
def test_code_that_defines_no_function_is_refused_at_its_start(code: str, match: str) -> None:
    with pytest.raises(CodeFailed, match=f"preprocess: .*{match}"), opened(preprocess=code):
        pass


REFUSED = """
libc = ctypes.CDLL(None, use_errno=True)
def refused(name, *arguments):
    if libc[name](*arguments) == -1 and ctypes.get_errno() == 1:
        raise PermissionError(name)
"""
SHORT = InlineLimits(timeout_s=30.0, cpu_s=30, memory_bytes=64 << 20, output_bytes=1 << 16)


@pytest.mark.parametrize(
    ("body", "match"),
    [
        ("while True: pass", r"line 3: took longer than 1 s"),
        (
            "while True:\n      try: pass\n      except BaseException: pass",
            r"line [345]: took longer",
        ),
        ("import time; time.sleep(1e6)", r"line 3: took longer than 1 s"),
        ("import os; os._exit(3)", "its process ended with 3"),
        ("import ctypes; ctypes.string_at(0)", "line 3: its process was ended by SIGSEGV"),
    ],
)
def test_code_that_does_not_come_back_is_ended_and_started_anew(body: str, match: str) -> None:
    code = f"def fun(env, data):\n  if data == 'bad':\n    {body}\n  return data\n"
    with opened(InlineLimits(timeout_s=1.0, cpu_s=30), preprocess=code) as inline:
        assert prepared(inline, "good") == "good"
        with pytest.raises(CodeFailed, match=match):
            prepared(inline, "bad")
        assert prepared(inline, "again") == "again"


def test_code_that_burns_its_processor_time_is_ended_with_its_line() -> None:
    limits = InlineLimits(timeout_s=60.0, cpu_s=1)
    code = "def fun(env, data):\n  while data: pass\n  return data\n"
    assert "line 2: used more than 1 s of processor time" in failure("burn", limits, code)


def test_each_call_has_its_own_processor_time() -> None:
    code = """import time
def fun(env, data):
    until = time.process_time() + 0.5
    while time.process_time() < until:
        pass
    return data
"""
    with opened(InlineLimits(timeout_s=60.0, cpu_s=1), preprocess=code) as inline:
        assert [prepared(inline, n) for n in range(3)] == list(range(3))


@pytest.mark.parametrize(
    ("body", "match"),
    [
        ("os.fork()", r"line 4: BlockingIOError.*not start processes"),
        ("subprocess.run(['true'])", r"line 4: (BlockingIO|OS|Permission)Error.*inline code may"),
        ("threading.Thread(target=print).start()", r"line 4: RuntimeError: can't start new thread"),
        ("open('/etc/hostname').read()", r"line 4: OSError.*not open files"),
        ("(os.close(0), open('/etc/hostname'))", r"line 4: OSError.*not open files"),
        ("os.stat('/etc/hostname')", "line 4: PermissionError.*may only compute"),
        ("os.lstat('/root/.ssh')", "line 4: PermissionError"),
        ("os.stat('/etc/hostname', dir_fd=0)", "line 4: PermissionError"),
        ("os.readlink('/proc/self/exe')", "line 4: PermissionError"),
        ("os.access('/', 0) or os.stat('/')", "line 4: PermissionError"),
        ("os.listdir('/')", "line 4: OSError.*not open files"),
        ("socket.socket()", r"line 4: PermissionError.*no connections"),
        ("os.unlink('/tmp/mlscope-none')", "line 4: PermissionError.*may only compute"),
        ("os.rename('/tmp/mlscope-none', '/tmp/mlscope-other')", "line 4: PermissionError"),
        ("os.truncate('/tmp/mlscope-none', 0)", "line 4: PermissionError"),
        ("os.mkdir('/tmp/mlscope-none')", "line 4: PermissionError"),
        ("os.symlink('/a', '/tmp/mlscope-none')", "line 4: PermissionError"),
        ("os.chmod('/tmp/mlscope-none', 7)", "line 4: PermissionError"),
        ("os.open('/tmp/mlscope-none', os.O_CREAT | os.O_WRONLY)", "line 4: PermissionError"),
        ("os.kill(-1, 0)", "line 4: PermissionError"),
        ("os.kill(os.getppid(), 0)", "line 4: PermissionError"),
        ("os.setsid()", "line 4: PermissionError"),
        ("os.memfd_create('x')", "line 4: PermissionError"),
        ("os.execv('/bin/true', ['true'])", "line 4: PermissionError"),
        ("fcntl.fcntl(0, fcntl.F_SETOWN, os.getpid())", "line 4: PermissionError"),
        ("refused('shmget', 0, 1 << 30, 0o1600)", "line 10: PermissionError: shmget"),
        ("refused('shmat', 0, 0, 0)", "line 10: PermissionError: shmat"),
        ("refused('process_vm_writev', os.getppid(), 0, 0, 0, 0, 0)", "line 10: PermissionError"),
        ("refused('ptrace', 0, 0, 0, 0)", "line 10: PermissionError: ptrace"),
        ("refused('prctl', 1, 0, 0, 0, 0)", "line 10: PermissionError: prctl"),
        ("refused('mount', 0, 0, 0, 0, 0)", "line 10: PermissionError: mount"),
        ("len(bytes(1 << 28))", r"line 4: MemoryError: inline code has used up its memory"),
        ("np.ones(1 << 28)", r"line 4: \w*MemoryError.*used up its memory"),
        ("sys.exit(1)", r"line 4: SystemExit: 1"),
        ("resource.setrlimit(resource.RLIMIT_NPROC, (64, 64))", r"line 4: ValueError"),
        ("resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))", r"line 4: ValueError"),
    ],
)
def test_code_may_do_nothing_but_compute(body: str, match: str) -> None:
    imports = "import ctypes, fcntl, os, resource, socket, subprocess, sys, threading"
    imports += "\nimport numpy as np"
    function = f"def fun(env, data):\n    {body} if data else None\n    return 'next'\n"
    code = f"{imports}\n{function}{REFUSED}"
    with opened(SHORT, preprocess=code) as inline:
        with pytest.raises(CodeRaised, match=match):
            prepared(inline, "do it")
        assert prepared(inline, "") == "next"


MANY_SMALL_VALUES = """
import os
def fun(env, data):
    body = b"\\x93\\xa2ok\\xdd" + (1 << 21).to_bytes(4, "big") + b"\\x90" * (1 << 21) + b"\\x90"
    frame = len(body).to_bytes(8, "little") + bytes(8) + body
    for fd in range(3, 1024):
        try:
            while frame:
                frame = frame[os.write(fd, frame):]
        except OSError: pass
    return data
"""
"""Code that answers with two million empty lists, past the worker's own limits."""


def test_an_answer_of_many_small_values_does_not_fill_the_memory() -> None:
    """Sixty million empty lists took 4 GB of the worker: what counts is what they become."""
    limits = InlineLimits(timeout_s=30.0, cpu_s=30, memory_bytes=64 << 20, output_bytes=4 << 20)
    values = "its answer has values that need more than .* return arrays"
    assert re.search(values, failure(1, limits, MANY_SMALL_VALUES))


def test_an_answer_may_be_only_so_large() -> None:
    code = "def fun(env, data):\n    return bytes(data)\n"
    with opened(SHORT, preprocess=code) as inline:
        assert len(prepared(inline, 60_000)) == 60_000
        with pytest.raises(CodeRaised, match=r"its answer has 7\d+ bytes, at most 65536"):
            prepared(inline, 70_000)


@pytest.fixture
def _lines_in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait no five seconds for the end, and none for the line, of a process that gives neither."""
    monkeypatch.setattr("services.agent.worker.inline.process._TRACE_S", 0.5)


@pytest.mark.usefixtures("_lines_in_a_hurry")
def test_a_frame_that_says_it_is_endless_is_not_waited_for() -> None:
    code = """import os
def fun(env, data):
    for fd in range(3, 1024):
        try: os.write(fd, (1 << 50).to_bytes(8, "little") + bytes(8))
        except OSError: pass
    return data
"""
    endless = f"its answer has {1 << 50} bytes"
    assert endless in failure(1, SHORT, code)


@pytest.mark.usefixtures("_lines_in_a_hurry")
def test_nonsense_on_the_channel_ends_the_process() -> None:
    code = """import os
def fun(env, data):
    for fd in range(3, 1024):
        try: os.write(fd, b"\\0" * 64)
        except OSError: pass
    return data
"""
    assert "answer can't be decoded" in failure(1, SHORT, code)


@pytest.mark.parametrize("name", ["venv.__main__", "json.tool.__main__"])
def test_programs_are_not_imported(name: str) -> None:
    with (
        pytest.raises(CodeFailed, match="line 1: ModuleNotFoundError"),
        opened(preprocess=f"import {name}\n{ECHO}"),
    ):
        pass


def test_modules_are_imported_without_rights(tmp_path: Path) -> None:
    target = tmp_path / "made"
    body = f"import os\ntry: os.mkdir({str(target)!r})\nexcept OSError as e: said = e.errno\n"
    (tmp_path / "brought.py").write_text(body)
    script = f"""
import os, sys
sys.path.insert(0, {str(tmp_path)!r})
from services.agent.worker.inline import child
child.restrict(1 << 30)
child.import_modules(["brought"])
os.write(1, str(sys.modules["brought"].said).encode())
"""
    made = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, timeout=120)
    assert (made.stdout, target.exists()) == (b"1", False)


ORPHAN = """
import sys
from tests.services.agent.worker.inline.test_inline import opened, prepared, InlineLimits
code = '''
import os, signal
def fun(env, data):
    for number in (signal.SIGTERM, signal.SIGXCPU, signal.SIGIO, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    try: os.setsid()
    except OSError: pass
    if data: return os.getpid()
    while True: pass
'''
with opened(InlineLimits(timeout_s=600.0, cpu_s=600), preprocess=code) as inline:
    print(prepared(inline, 1), flush=True)
    prepared(inline, 0)
"""


def test_code_ends_with_its_worker() -> None:
    worker = subprocess.Popen([sys.executable, "-c", ORPHAN], stdout=subprocess.PIPE, text=True)
    assert worker.stdout is not None
    with worker.stdout:
        pid = int(worker.stdout.readline())
    began_s = cpu_s(pid)
    assert until(lambda: cpu_s(pid) > began_s + 0.2, 60.0), "it is in a call without end"
    worker.kill()
    worker.wait()
    try:
        assert until(lambda: not is_running(pid), 60.0)
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_code_outlives_the_thread_that_started_it() -> None:
    code = "calls = []\ndef fun(env, data):\n    calls.append(data)\n    return len(calls)\n"

    def start() -> InlineCode:
        inline = open_inline(with_code(preprocess=code), 1, LIMITS, ("x",))
        prepared(inline, 1)
        return inline

    with ThreadPoolExecutor(1) as ended:
        inline = ended.submit(start).result()
    try:
        assert [prepared(inline, 1), prepared(inline, 1)] == [2, 3]
    finally:
        inline.close()


def cpu_s(pid: int) -> float:
    """Return how much processor time a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def is_running(pid: int) -> bool:
    """Say whether a process is there and no zombie."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def until(holds: Callable[[], bool], within_s: float) -> bool:
    """Wait until something holds; say whether it did."""
    until_s = time.monotonic() + within_s
    while not holds() and time.monotonic() < until_s:
        time.sleep(0.02)
    return holds()


def test_no_filter_no_code(monkeypatch: pytest.MonkeyPatch) -> None:
    assert filter_fault() == ""
    monkeypatch.setattr("platform.machine", lambda: "pdp11")
    assert "pdp11" in filter_fault()
    with pytest.raises(FilterMissing, match=r"no filter of system calls .*pdp11"):
        filter_calls()


FORGED = """import os
def fun(env, data):
    body = b"\\x93\\xa6raised" + BODY
    for fd in range(3, 1024):
        try: os.write(fd, len(body).to_bytes(8, "little") + bytes(8) + body)
        except OSError: pass
"""


@pytest.mark.parametrize(
    "body", [r"b'\x01\xda\xff\xff' + b'x' * 65535", r"b'\xa1' + b'9' + b'\x07'"]
)
def test_a_forged_reason_is_cut(body: str) -> None:
    limits = InlineLimits(timeout_s=30.0)
    with (
        opened(limits, preprocess=FORGED.replace("BODY", body)) as inline,
        pytest.raises(CodeRaised) as told,
    ):
        prepared(inline, 1)
    assert str(told.value) in ("line 1: " + "x" * 1000, "gives no reason")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has another user to become")
def test_code_is_a_user_that_nobody_else_is() -> None:
    code = "import os\ndef fun(env, data):\n    return [os.getuid(), os.getgid(), os.getgroups()]\n"
    with opened(preprocess=code) as inline:
        uid, gid, groups = prepared(inline, 0)
    assert (uid == gid, uid > 60_000, groups) == (True, True, [])


def test_code_is_refused_where_its_owner_does_not_allow_it() -> None:
    model = with_code(preprocess=ECHO).model
    with pytest.raises(CodeRefused, match="MLSCOPE_ALLOW_INLINE_PYTHON"):
        check_code(model, None)
    check_code(model, LIMITS)
    check_code(a_subject().model, None)


def test_code_and_steps_exclude_each_other() -> None:
    model = with_code(preprocess=ECHO).model
    port = model.inputs[0].model_copy(update={"steps": (Step(operator="cast"),)})
    with pytest.raises(CodeFailed, match="either steps or inline code"):
        check_code(model.model_copy(update={"inputs": (port,)}), LIMITS)
