"""Pictures of samples: which the gateway has, and what it serves of them."""

import hashlib
from pathlib import Path

import pytest

from mlscope.bus.bus import Bus
from schemas.manifest import DatasetManifest, Sample
from services.gateway.sample_pictures import SamplePictures
from tests.services.gateway.conftest import web_over
from tests.services.gateway.site.test_trying import model
from tests.stand_ins import StandIns

PNG = b"\x89PNG\r\n\x1a\n" + bytes(40)
JPEG = b"\xff\xd8\xff" + bytes(40)


def sample(path: str, content: bytes) -> Sample:
    return Sample(path=path, sha256=hashlib.sha256(content).hexdigest())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder of manifests with two pictures and a text, and one picture beside it."""
    (tmp_path / "datasets" / "pets").mkdir(parents=True)
    for name, content in {
        "datasets/pets/cat.png": PNG,
        "datasets/pets/dog.jpg": JPEG,
        "datasets/pets/note.html": b"<script>",
        "datasets/pets/note.png": b"<script>",
        "datasets/pets/huge.png": PNG + bytes(1 << 20),
        "outside.png": PNG + b"outside",
    }.items():
        (tmp_path / name).write_bytes(content)
    return tmp_path


def test_a_picture_has_the_type_of_its_content(folder: Path) -> None:
    samples = (sample("pets/cat.png", PNG), sample("pets/dog.jpg", JPEG))
    pets = [DatasetManifest(name="pets", samples=samples)]
    pictures = SamplePictures(folder)
    assert pictures.among(pets, 1) == {samples[0].sha256}
    assert pictures.read(pets, samples[0].sha256) == (PNG, "image/png")
    assert pictures.read(pets, samples[1].sha256) == (JPEG, "image/jpeg")
    assert pictures.read([], samples[0].sha256) is None
    assert SamplePictures(None).read(pets, samples[0].sha256) is None


@pytest.mark.parametrize(
    "wrong",
    [
        sample("../outside.png", PNG + b"outside"),
        sample("/etc/hostname", b""),
        sample("pets/note.html", b"<script>"),
        sample("pets/note.png", b"<script>"),
        sample("pets/huge.png", PNG + bytes(1 << 20)),
        sample("pets/cat.png", b"another content"),
        sample("pypi://package==1/cat.png", PNG),
        Sample(path="pets/cat.png"),
        sample("pets/\0.png", PNG),
    ],
    ids=lambda wrong: wrong.path[:20].replace("\0", "NUL"),
)
def test_nothing_but_a_sample_s_own_picture_is_read(folder: Path, wrong: Sample) -> None:
    pets = [DatasetManifest(name="pets", samples=(wrong,))]
    assert SamplePictures(folder).read(pets, wrong.sha256) is None


async def test_pages_show_the_pictures_that_the_gateway_has(
    bus: Bus, standing: StandIns, folder: Path
) -> None:
    cat, far = sample("pets/cat.png", PNG), sample("pypi://package==1/far.png", JPEG)
    same = sample("pypi://package==1/cat.png", PNG)
    pets = DatasetManifest(name="pets", modality="image", samples=(far, same, cat))
    standing.catalog, standing.models = {"datasets": (pets,)}, (model("first"),)
    address = f"/samples/{cat.sha256}"
    async with web_over(bus, manifests_folder=folder) as web:
        for path in ("/datasets", "/datasets/pets/1.0.0", "/try?model=first"):
            assert (await web.get(path)).text.count(f'<img src="{address}') == 2, path
        assert "does not have their files" in (await web.get("/datasets/pets/1.0.0")).text
        picture = await web.get(address)
        assert (picture.content, picture.headers["content-type"]) == (PNG, "image/png")
        assert (await web.get(f"/samples/{far.sha256}")).status_code == 404
