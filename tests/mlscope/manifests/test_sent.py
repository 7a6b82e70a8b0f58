"""A manifest whose files were sent has their addresses and checksums."""

from mlscope.manifests.sent import SentFile, with_sent_files

GRAPH = SentFile("artifact://uploads/aa.onnx", "sha256:aa")
LABELS = SentFile("artifact://uploads/bb.txt", "sha256:bb")


def test_files_are_found_by_the_last_part_of_their_path() -> None:
    model = {"graph_path": "exported/net.onnx", "assets": {"labels.txt": ""}}
    placed = with_sent_files({"model": model}, {"net.onnx": GRAPH, "labels.txt": LABELS})
    assert placed.manifest["model"] == {
        "graph_path": "exported/net.onnx",
        "checksum": "sha256:aa",
        "assets": {"labels.txt": "sha256:bb"},
        "addresses": {"exported/net.onnx": GRAPH.address, "labels.txt": LABELS.address},
    }
    assert (placed.unused, placed.lacking) == ([], [])


def test_a_checksum_of_the_manifest_stays() -> None:
    model = {"graph_path": "net.onnx", "checksum": "sha256:own"}
    placed = with_sent_files({"model": model}, {"net.onnx": GRAPH})
    assert placed.manifest["model"]["checksum"] == "sha256:own"


def test_what_is_left_over_is_told_on_both_sides() -> None:
    model = {"graph_path": "net.onnx", "weights_path": "https://host/w.bin"}
    placed = with_sent_files({"model": model}, {"other.onnx": GRAPH})
    assert placed.manifest["model"] == model
    assert (placed.unused, placed.lacking) == (["other.onnx"], ["net.onnx"])


def test_an_archive_is_one_address() -> None:
    archive = SentFile("artifact://uploads/cc.tar", "sha256:cc")
    variants = [{"name": "pytorch", "model": {"archive": "all.tar", "graph_path": "net.pt"}}]
    placed = with_sent_files({"frameworks": variants}, {"all.tar": archive})
    assert placed.manifest["frameworks"][0]["model"] == {
        "archive": archive.address,
        "archive_checksum": "sha256:cc",
        "graph_path": "net.pt",
    }
    assert placed.lacking == []
