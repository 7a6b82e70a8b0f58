"""Pictures whose first steps a device carries out: the host's answers, failures and spans.

The device is PyTorch's CPU and Pillow decodes in place of nvJPEG: tests/gpu has the GPU.
"""

import io
import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from PIL import Image

from mlscope.datasets.errors import DatasetError
from mlscope.tracing.batches import Attempt
from mlscope.tracing.clock import now_ns
from schemas.level import Level
from schemas.manifest import Step
from services.agent.errors import BadOption
from services.agent.predictors import Tensors
from services.agent.predictors.decoding import why_not_jpeg
from services.agent.predictors.pytorch.decoding import DevicePictures
from services.agent.predictors.pytorch.options import options_of
from services.agent.steps.forms import DecodeForm, DeviceForm
from services.agent.worker.queries.device_decoding import DECODING_THREADS, decoded_on_device
from services.agent.worker.queries.operator_runner import Supply
from services.agent.worker.queries.pipeline import Pipeline, PortPlan, StepPlan, pipeline_of
from services.agent.worker.queries.query import Query, Slot
from services.agent.worker.queries.stages import Stages
from services.agent.worker.queries.streaming import run_inline, run_streaming
from services.agent.worker.recorder import RunRecorder
from tests.services.agent.builders import MANIFESTS

PHOTOS = [path.read_bytes() for path in sorted((MANIFESTS / "datasets/photos").glob("*.jpg"))][:4]
DECODE = Step(operator="decode", parameters={"color_mode": "RGB"})
COVER = {"dimensions": [40, 40], "keep_aspect_ratio": True, "method": "bilinear"}
RESIZE = Step(operator="resize", parameters=COVER)
CROP = Step(operator="crop", parameters={"dimensions": [32, 32]})
NORMALIZE = Step(operator="normalize", parameters={"mean": 127.0, "scale": 1.0})
BATCH = 4


def cast(element_type: str, layout: str) -> Step:
    return Step(operator="cast", parameters={"element_type": element_type, "data_layout": layout})


class Device:
    """A predictor whose device decodes pictures."""

    decodes_pictures = True

    def picture_steps(self, forms: Sequence[DeviceForm]) -> DevicePictures:
        """Return the steps of these forms."""
        return DevicePictures(forms, torch.device("cpu"), (pillow, "Pillow"))


def pillow(files: list[Any]) -> list[Any]:
    """Decode as nvJPEG does: one bad file fails the batch."""
    try:
        pictures = [Image.open(io.BytesIO(file.numpy().tobytes())) for file in files]
        return [torch.tensor(np.asarray(p.convert("RGB"))).permute(2, 0, 1) for p in pictures]
    except OSError as error:
        raise RuntimeError("error while decoding") from error


def pipelines(*steps: Step, first: Any = PHOTOS[0]) -> tuple[Pipeline, Pipeline]:
    """Return the pipeline on the host, and the one whose first steps the device carries out."""
    plan = StepPlan(before=(PortPlan("x", steps),))
    on_host = pipeline_of(plan, lambda _: ())
    device: Any = Device()
    return on_host, decoded_on_device(on_host, device, first, lambda _: ())


class Result:
    """What queries over `samples` left behind, whose model keeps its inputs."""

    def __init__(
        self, pipeline: Pipeline, samples: Sequence[Any], like: Any, *, streamed: bool = False
    ) -> None:
        recorder = RunRecorder(Attempt("e", "r", 1, "a"), lambda _: True, waits_for_flush=True)
        self.inputs: list[Any] = []
        self.queries: list[Query] = []
        supply = Supply(pipeline, samples, BATCH, workers=DECODING_THREADS if streamed else 1)
        stages = Stages(supply, self.predict, recorder, Level.MODEL)
        slots = [Slot({"x": np.zeros((BATCH, *like.shape), like.dtype)}) for _ in range(3)]
        places = [[(first + n) % len(samples) for n in range(BATCH)] for first in range(3)]
        issued = [Query(number, names, now_ns()) for number, names in enumerate(places)]
        done = self.queries.append
        if streamed:
            run_streaming(issued, stages, slots, recorder, done, lambda: None)
        else:
            run_inline(issued, stages, slots[0], recorder, done)
        self.spans = recorder.spans.take()
        self.names = {stages._runner.name_ids[name]: name for name in stages._runner.name_ids}

    def predict(self, inputs: Tensors) -> Tensors:
        """Keep the inputs."""
        self.inputs.append(np.array(inputs["x"]))
        return {"y": np.zeros((BATCH, 1), np.float32)}


BYTES_FIRST, BYTES_LAST = np.zeros((3, 32, 32), np.uint8), np.zeros((32, 32, 3), np.uint8)
NUMBERS = np.zeros((3, 32, 32), np.float32)


@pytest.mark.parametrize(
    ("rest", "like", "carried_out"),
    [
        ([NORMALIZE, cast("float32", "CHW")], NUMBERS, 3),
        ([cast("uint8", "CHW")], BYTES_FIRST, 4),
        ([cast("uint8", "HWC")], BYTES_LAST, 4),
    ],
)
@pytest.mark.parametrize("streamed", [False, True])
def test_a_device_prepares_what_the_host_does(
    rest: list[Step], like: Any, carried_out: int, *, streamed: bool
) -> None:
    on_host, on_device = pipelines(DECODE, RESIZE, CROP, *rest)
    assert on_device.device_decoding is not None
    assert on_device.device_decoding.steps == carried_out
    expected = Result(on_host, PHOTOS, like, streamed=streamed)
    result = Result(on_device, PHOTOS, like, streamed=streamed)
    assert len(result.inputs) == 3
    for inputs, host_inputs in zip(result.inputs, expected.inputs, strict=True):
        # PyTorch rounds otherwise than Pillow, by one.
        assert np.abs(inputs.astype(np.float64) - host_inputs.astype(np.float64)).max() <= 1
        assert host_inputs.std() > 10
    ids = [{(span[0], result.names[span[3]]) for span in one.spans} for one in (result, expected)]
    assert ids[0] == ids[1]
    counts = Counter(result.names[span[3]] for span in result.spans)
    assert counts["decode"] == counts["cast"] == 3 * BATCH


def test_the_shares_of_a_batch_add_up_to_its_time() -> None:
    _, on_device = pipelines(DECODE, RESIZE, CROP, cast("uint8", "CHW"))
    result = Result(on_device, PHOTOS, BYTES_FIRST)
    first = sorted(
        (span[4], span[4] + span[5], result.names[span[3]])
        for span in result.spans
        if span[7] == 0 and result.names[span[3]] in ("decode", "resize", "crop", "cast")
    )
    assert [name for _, _, name in first] == [
        name for name in ("decode", "resize", "crop", "cast") for _ in range(BATCH)
    ]
    assert all(end == begin for (_, end, _), (begin, _, _) in pairwise(first))
    assert first[-1][1] > first[-1][0], "the copy to the host is in the step after the device's"
    assert first[-1][1] <= result.queries[0].ended_ns


@pytest.mark.parametrize("rest", [[NORMALIZE, cast("float32", "CHW")], [cast("uint8", "CHW")]])
@pytest.mark.parametrize("streamed", [False, True])
def test_bad_files_fail_alone(rest: list[Step], *, streamed: bool) -> None:
    like = NUMBERS if len(rest) == 2 else BYTES_FIRST
    png = io.BytesIO()
    Image.new("RGB", (64, 64)).save(png, "PNG")
    middle = len(PHOTOS[1]) // 2
    broken = PHOTOS[1][:20] + bytes(middle) + PHOTOS[1][-2:]
    samples = [PHOTOS[0], png.getvalue(), PHOTOS[2][:-200], broken]
    on_host, on_device = pipelines(DECODE, RESIZE, CROP, *rest)
    result = Result(on_device, samples, like, streamed=streamed)
    (good,) = {
        tuple(sorted(query.samples[place] for place in query.good_places))
        for query in result.queries
    }
    assert good == (0,)
    (query, *_) = result.queries
    assert query.is_answered
    for reason in ("decode: not a JPEG file", "truncated", "not a readable JPEG picture"):
        assert reason in query.error
    expected = Result(on_host, [PHOTOS[0]], like).inputs[0]
    assert np.abs(result.inputs[0].astype(float) - expected.astype(float)).max() <= 1


class PartlyReadable(list[Any]):
    """Samples of which one cannot be read, and one is no file."""

    def __getitem__(self, place: Any) -> Any:
        """Return a sample; the one at 1 cannot be read."""
        if place == 1:
            raise DatasetError("sample 1 is gone")
        return super().__getitem__(place)


@pytest.mark.parametrize("rest", [[NORMALIZE, cast("float32", "CHW")], [cast("uint8", "CHW")]])
@pytest.mark.parametrize("streamed", [False, True])
def test_the_others_of_a_batch_with_an_unread_sample_are_their_own(
    rest: list[Step], *, streamed: bool
) -> None:
    like = NUMBERS if len(rest) == 2 else BYTES_FIRST
    on_host, on_device = pipelines(DECODE, RESIZE, CROP, *rest)
    samples = PartlyReadable([PHOTOS[0], PHOTOS[1], 5, PHOTOS[3]])
    result = Result(on_device, samples, like, streamed=streamed)
    expected = Result(on_host, PHOTOS, like, streamed=streamed)
    for query, inputs, host_inputs in zip(
        result.queries, result.inputs, expected.inputs, strict=True
    ):
        assert sorted(query.samples[place] for place in query.good_places) == [0, 3]
        assert "sample 1 is gone" in query.error
        assert "the sample is int, not a file's bytes" in query.error
        for place in query.good_places:
            distance = inputs[place].astype(float) - host_inputs[place].astype(float)
            assert np.abs(distance).max() <= 1


def test_a_file_that_ends_within_its_scan_is_truncated_though_its_thumbnail_ends() -> None:
    thumbnail = io.BytesIO()
    Image.new("RGB", (8, 8)).save(thumbnail, "JPEG")
    segment = b"Exif\0\0" + thumbnail.getvalue()
    header = PHOTOS[0][:2] + b"\xff\xe1" + (len(segment) + 2).to_bytes(2, "big") + segment
    whole = header + PHOTOS[0][2:]
    assert why_not_jpeg(whole) == ""
    assert "truncated" in why_not_jpeg(whole[:-200])
    assert "truncated" in why_not_jpeg(header)


class Searched(bytes):
    """A file that says when its end was looked for."""

    was_searched: threading.Event

    def rfind(self, *arguments: Any) -> int:
        """Say that the end is looked for."""
        self.was_searched.set()
        return super().rfind(*arguments)


def test_files_are_checked_while_the_device_decodes_another_batch() -> None:
    is_decoding, was_searched = threading.Event(), threading.Event()

    def decode_once_checked(files: list[Any]) -> list[Any]:
        is_decoding.set()
        assert was_searched.wait(10), "the files of the next batch wait for this one's pictures"
        return pillow(files)

    decoder = decode_once_checked, "Pillow"
    steps = DevicePictures((DecodeForm(is_reversed=False),), torch.device("cpu"), decoder)
    file = Searched(PHOTOS[1])
    file.was_searched = was_searched
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(steps.apply, PHOTOS[:1])
        assert is_decoding.wait(10)
        second = threads.submit(steps.apply, [file])
        for number, prepared in enumerate((first.result(), second.result())):
            (picture,) = prepared.pictures
            expected = Image.open(io.BytesIO(PHOTOS[number])).convert("RGB")
            np.testing.assert_array_equal(picture, np.asarray(expected))


class FromTheEnd(bytes):
    """A file whose bytes may only be searched from their end."""

    def find(self, *_: Any) -> int:
        """Refuse to read all of a file: that takes longer than a GPU needs to decode it."""
        raise AssertionError("the whole file was read")


def test_a_file_is_not_read_from_its_begin_to_find_its_end() -> None:
    assert why_not_jpeg(FromTheEnd(PHOTOS[0])) == ""
    assert "truncated" in why_not_jpeg(FromTheEnd(PHOTOS[0][:-200]))


def test_too_little_memory_is_not_a_broken_file() -> None:
    def exhausted(_: list[Any]) -> list[Any]:
        raise torch.OutOfMemoryError("CUDA out of memory")

    steps = DevicePictures(
        (DecodeForm(is_reversed=False),), torch.device("cpu"), (exhausted, "Pillow")
    )
    with pytest.raises(MemoryError, match="CUDA out of memory"):
        steps.apply(PHOTOS)


def test_a_picture_of_another_size_than_the_input_fails_alone() -> None:
    _, on_device = pipelines(DECODE, cast("uint8", "HWC"))
    size = Image.open(io.BytesIO(PHOTOS[0])).size
    like = np.zeros((size[1], size[0], 3), np.uint8)
    result = Result(on_device, [PHOTOS[0], *PHOTOS[1:]], like)
    assert [query.good_places[0] for query in result.queries[:1]] == [0]
    assert "the model takes" in result.queries[0].error


def test_blue_comes_first_where_the_step_says_so() -> None:
    decode = Step(operator="decode", parameters={"color_mode": "BGR"})
    on_host, on_device = pipelines(decode, RESIZE, CROP, cast("uint8", "CHW"))
    inputs, expected = (Result(p, PHOTOS, BYTES_FIRST).inputs[0] for p in (on_device, on_host))
    assert np.abs(inputs.astype(int) - expected.astype(int)).max() <= 1


def test_the_record_says_how_far_the_pixels_are_and_which_library_decodes() -> None:
    _, on_device = pipelines(DECODE, RESIZE, CROP, NORMALIZE, cast("float32", "CHW"))
    (note,) = on_device.notes()
    assert note.startswith("decode, resize, crop run on the device by Pillow: ")
    assert "up to 1 of 255" in note
    assert on_device.libraries() == ("Pillow",)


def test_a_resize_that_a_device_lacks_stays_on_the_host() -> None:
    nearest = Step(operator="resize", parameters={"dimensions": [32, 32], "method": "nearest"})
    on_host, on_device = pipelines(DECODE, nearest, cast("uint8", "CHW"))
    assert on_device.device_decoding is not None
    assert on_device.device_decoding.steps == 1
    results = [Result(pipeline, PHOTOS, BYTES_FIRST) for pipeline in (on_host, on_device)]
    np.testing.assert_array_equal(results[0].inputs, results[1].inputs)


@pytest.mark.parametrize(
    ("steps", "first", "reason"),
    [
        ([NORMALIZE], PHOTOS[0], "the first step is not a decode"),
        (
            [Step(operator="decode", parameters={"color_mode": "L"})],
            PHOTOS[0],
            "not a decode to RGB",
        ),
        ([DECODE, RESIZE], np.zeros((4, 4, 3)), "whose samples are files"),
        ([DECODE, RESIZE], b"\x89PNG\r\n", "the first sample is not a JPEG file"),
    ],
)
def test_what_a_device_cannot_decode_is_refused(steps: list[Step], first: Any, reason: str) -> None:
    with pytest.raises(BadOption, match=reason):
        pipelines(*steps, first=first)


def test_a_processor_does_not_decode_by_nvjpeg() -> None:
    assert options_of({}, "cpu", has_gpu=False).decode == "host"
    assert options_of({"decode": "device"}, "gpu", has_gpu=True).decode == "device"
    with pytest.raises(BadOption, match="nvJPEG decodes on a GPU"):
        options_of({"decode": "device"}, "cpu", has_gpu=False)
