"""Commands that bring what is measured: manifests, models' files, artifacts."""

from pathlib import Path

from cli.arguments.parts import Parsers, asks, command, prints


def add_manifest(commands: Parsers) -> None:
    """Add `manifest check|publish|withdraw`."""
    parser = commands.add_parser("manifest", help="check, publish or withdraw a manifest")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    check = command(actions, "check", "manifests", "read manifests and say what is wrong")
    publish = command(actions, "publish", "manifests", "put manifests into the catalog")
    for each in (check, publish):
        each.add_argument("files", nargs="+", type=Path, metavar="FILE")
    withdraw = command(actions, "withdraw", "manifests", "take a manifest out of the catalog")
    kinds = ("model", "framework", "dataset", "scenario", "hardware", "software")
    withdraw.add_argument("kind", choices=kinds)
    withdraw.add_argument("name")
    withdraw.add_argument("version")
    for each in (publish, withdraw):
        asks(each)


def add_assets(commands: Parsers) -> None:
    """Add `models fetch` and `artifacts put|ls|rm`."""
    models = commands.add_parser("models", help="fetch what models need, before they are run")
    actions = models.add_subparsers(dest="action", metavar="ACTION", required=True)
    fetch = command(actions, "fetch", "models", "fetch models' files into this host's cache")
    fetch.add_argument(
        "models", nargs="+", metavar="MODEL", help="a shipped model's name, or a manifest's file"
    )
    artifacts = commands.add_parser("artifacts", help="put, list and remove files of the cluster")
    actions = artifacts.add_subparsers(dest="action", metavar="ACTION", required=True)
    put = command(actions, "put", "artifacts", "store a file, as artifact://NAME in manifests")
    put.add_argument("file", type=Path, metavar="FILE")
    put.add_argument("name", nargs="?", default="", metavar="NAME", help="default: the file's")
    listing = command(actions, "ls", "artifacts", "list what is stored")
    prints(listing)
    remove = command(actions, "rm", "artifacts", "remove what is stored")
    remove.add_argument("names", nargs="+", metavar="NAME")
    for each in (fetch, put, listing, remove):
        asks(each)
