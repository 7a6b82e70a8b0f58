"""The process that preparing processes are forked from (I/O).

    python -P -c BOOT ROOT CHANNEL_FD ORDER_FD

It opens the dataset and the steps while the worker opens the model, and imports no framework. Each
process forked from it shares what it has read, and starts within milliseconds. It ends when its
channel does, and with the worker; the processes forked from it end with it.
"""

import contextlib
import ctypes
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import msgpack

from mlscope.datasets.errors import DatasetError
from services.agent.errors import SAMPLE_ERRORS, AgentError
from services.agent.machine.landlock import refuse_tracers
from services.agent.worker.files.datasets import load_samples
from services.agent.worker.files.model_files import AssetFolder, ModelFiles
from services.agent.worker.files.samples import first_readable
from services.agent.worker.preparation.arena import Arena
from services.agent.worker.preparation.child import Preparer, SampleSource
from services.agent.worker.preparation.finishing_child import finish_all
from services.agent.worker.preparation.fork_requests import FAILED, FINISH, FORK, MAP, READY
from services.agent.worker.preparation.layout import ArenaLayout
from services.agent.worker.preparation.order import PreparationOrder
from services.agent.worker.queries.pipeline import Pipeline, StepPlan, pipeline_of, steps_of
from services.agent.worker.queries.sample_steps import SampleSteps

_NICENESS = 10
_PR_SET_PDEATHSIG = 1
_MOST_MESSAGE_BYTES = 1 << 16
_MOST_DESCRIPTORS = 64


class ForkServer:
    """Answers the worker's requests over a `channel`.

    Its processes prepare `samples` by the steps of a `pipeline`.
    """

    def __init__(self, channel: socket.socket, samples: Sequence[Any], pipeline: Pipeline) -> None:
        self._channel, self._samples, self._pipeline = channel, samples, pipeline
        self._arena: Arena | None = None
        self._wakes: list[socket.socket] = []
        self._pids: set[int] = set()

    def serve(self) -> None:
        """Answer requests until the worker closes the channel; then end all processes."""
        while True:
            body, descriptors, _, _ = socket.recv_fds(
                self._channel, _MOST_MESSAGE_BYTES, _MOST_DESCRIPTORS
            )
            if not body:
                break
            request, argument = msgpack.unpackb(body)
            answer = self._answer(request, argument, descriptors)
            self._channel.send(msgpack.packb(answer))
        for pid in self._pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

    def _answer(self, request: str, argument: Any, descriptors: Sequence[int]) -> int:
        """Do what a request asks for; return an exit code, a process id, or 0."""
        if request == MAP:
            arena_fd, *wake_fds = descriptors
            # The inputs get the names that they have in samples.
            ports = zip(self._pipeline.before, argument["names"], strict=True)
            before = tuple(replace(port, name=name) for port, name in ports)
            self._pipeline = replace(self._pipeline, before=before)
            self._arena = Arena(arena_fd, ArenaLayout.of(argument["layout"]))
            os.close(arena_fd)
            self._wakes = [socket.socket(fileno=fd) for fd in wake_fds]
            return 0
        if request == FORK:
            return self._fork(descriptors[0], partial(self._prepare, argument))
        if request == FINISH:
            return self._fork(descriptors[0], partial(finish_all, pipeline=self._pipeline))
        if argument not in self._pids:  # that of a server before this one, which it ended with
            return -signal.SIGKILL
        self._pids.remove(argument)
        _, status = os.waitpid(argument, 0)
        return os.waitstatus_to_exitcode(status)

    def _prepare(self, number: int, orders: socket.socket) -> None:
        """Carry out `orders` as the process with a `number`."""
        assert self._arena is not None
        source = SampleSource(self._samples, SampleSteps(self._pipeline))
        Preparer(self._arena, number, source, self._wakes).work(orders)

    def _fork(self, orders_fd: int, work: Callable[[socket.socket], None]) -> int:
        """Fork a process that does its `work`, which reads orders; return its process id."""
        server = os.getpid()
        pid = os.fork()
        if pid:
            os.close(orders_fd)
            self._pids.add(pid)
            return pid
        exit_code = 1
        try:
            end_with_parent(server)
            self._channel.close()
            work(socket.socket(fileno=orders_fd))
            exit_code = 0
        except BaseException:  # noqa: BLE001  # this process must not go on as a server
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(exit_code)


def end_with_parent(parent: int) -> None:
    """Have the kernel end this process with its `parent`, and end it now where that is gone."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def open_source(order: PreparationOrder) -> tuple[Sequence[Any], Pipeline]:
    """Return the samples and the steps of an order, each used once.

    What a step loads when it is used first is then loaded for all processes. Raises AgentError.
    """
    model, folder = order.model, order.manifests_folder
    files = ModelFiles(AssetFolder(folder, "models"), model, order.fetched, order.scratch)
    datasets = AssetFolder(folder, "datasets", order.fetched, order.scratch)
    samples = load_samples(order.dataset, datasets)
    sample = first_readable(order.dataset.name, samples)
    plan = steps_of(model)
    pipeline = pipeline_of(StepPlan(before=plan.before, after=plan.after), files.labels)
    for port in pipeline.before:
        with contextlib.suppress(*SAMPLE_ERRORS):
            value = sample.get(port.name) if isinstance(sample, dict) else sample
            for operator in port.steps:
                value = operator.apply(value)
    return samples, pipeline


def main(arguments: list[str]) -> None:
    """Serve with the descriptors given on the command line."""
    channel_fd, order_fd, parent = map(int, arguments)
    end_with_parent(parent)
    if os.geteuid() == 0:
        refuse_tracers()  # of other sessions: a worker's own refusal ends when it starts a program
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(_NICENESS)
    channel = socket.socket(fileno=channel_fd)
    with open(order_fd, "rb") as file:  # noqa: PTH123  # a descriptor
        order = PreparationOrder.unpacked(file.read())
    try:
        samples, pipeline = open_source(order)
    except (AgentError, DatasetError, OSError, ValueError) as error:
        channel.send(msgpack.packb([FAILED, str(error)]))
        return
    with contextlib.suppress(BrokenPipeError):  # the worker's model did not open meanwhile
        channel.send(msgpack.packb([READY, ""]))
        ForkServer(channel, samples, pipeline).serve()
    # The interpreter would take long to free what it holds, and the worker waits.
    os._exit(0)
