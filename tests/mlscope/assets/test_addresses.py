"""Addresses: what each form means, one spelling each, and nothing that climbs."""

from string import printable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlscope.assets.addresses import (
    ArtifactSource,
    FileSource,
    HttpSource,
    HubSource,
    PackageSource,
    joined,
    parse,
)
from mlscope.assets.errors import BadAddress

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("address", "source"),
    [
        ("photos/cat.jpg", FileSource("photos/cat.jpg")),
        ("file:photos/cat.jpg", FileSource("photos/cat.jpg")),
        ("file:///data/a%20b", FileSource("/data/a b")),
        ("https://host:8443/m.onnx?v=1#part", HttpSource("https://host:8443/m.onnx?v=1")),
        ("artifact://models/m.onnx", ArtifactSource("models/m.onnx")),
        ("pypi://a-b==1.0.post1/a/b.onnx", PackageSource("a-b", "1.0.post1", "a/b.onnx")),
        ("pypi://a==1.0", PackageSource("a", "1.0")),
        ("hf://org/repo@main/a/b.onnx", HubSource("org/repo", "main", "a/b.onnx")),
        ("hf://org/repo@refs%2Fpr%2F1/b", HubSource("org/repo", "refs/pr/1", "b")),
    ],
)
def test_each_form_is_read(address: str, source: object) -> None:
    assert parse(address) == source


@pytest.mark.parametrize(
    ("address", "field"),
    [
        ("", "text"),
        ("a\nb", "text"),
        ("ftp://host/file", "scheme"),
        ("file://elsewhere/file", "host"),
        ("file:/", "path"),
        ("https:///file", "host"),
        ("https://host:0/file", "host"),
        ("https://host:x/file", "host"),
        ("https://user:secret@host/file", "host"),
        ("artifact://../up", "name"),
        ("artifact:///rooted", "name"),
        ("pypi://a>=1/b", "package"),
        ("pypi://-r==1/b", "package"),
        ("pypi://a==/b", "version"),
        ("pypi://a==1/../b", "path"),
        ("pypi://a==1//b", "path"),
        ("pypi://a==1/a/../b", "path"),
        ("pypi://a==1/a//b", "path"),
        ("pypi://a==1/b\\c", "path"),
        ("hf://org/repo/b", "repository"),
        ("hf://org/repo@main", "repository"),
        ("hf://org/repo@a..b/c", "revision"),
        ("hf://org/repo@main/../c", "path"),
    ],
)
def test_a_bad_address_names_its_field(address: str, field: str) -> None:
    with pytest.raises(BadAddress) as error:
        parse(address)
    assert error.value.field == field
    assert "secret" not in str(error.value)


@given(st.text(printable + "é\0", max_size=60))
@pytest.mark.parametrize(
    "scheme", ["", "file:", "https://h/", "artifact://", "pypi://a==1/", "hf://a/b@c/"]
)
def test_what_parses_has_one_spelling(scheme: str, rest: str) -> None:
    try:
        source = parse(scheme + rest)
    except BadAddress:
        return
    assert parse(source.address) == source
    if isinstance(source, PackageSource | HubSource):
        assert ".." not in source.path.split("/")


def test_only_a_commit_never_changes() -> None:
    assert parse(f"hf://o/r@{COMMIT}/x") == HubSource("o/r", COMMIT, "x")
    assert HubSource("o/r", COMMIT, "x").is_immutable
    assert not HubSource("o/r", "main", "x").is_immutable


def test_a_hub_file_has_a_url() -> None:
    source = HubSource("o/r", "refs/pr/1", "a b.onnx")
    assert source.url("https://hub/") == "https://hub/o/r/resolve/refs%2Fpr%2F1/a%20b.onnx"


@pytest.mark.parametrize(
    ("base", "path", "address"),
    [
        ("", "m.onnx", "m.onnx"),
        ("file:m", "m.onnx", "file:m/m.onnx"),
        ("https://h/m/", "m.onnx", "https://h/m/m.onnx"),
        ("pypi://a==1", "m.onnx", "pypi://a==1/m.onnx"),
        ("https://h", "artifact://x", "artifact://x"),
        ("https://h/m.onnx", "", "https://h/m.onnx"),
    ],
)
def test_a_base_and_a_path_make_an_address(base: str, path: str, address: str) -> None:
    assert joined(base, path) == address
