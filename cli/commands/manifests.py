"""`mlscope manifest check|publish|withdraw`."""

import argparse
import asyncio
import sys
from pathlib import Path

from cli import exits
from cli.commands.asking import client_of
from cli.failures import Misused
from mlscope.manifests.checking import faults_in
from mlscope.manifests.errors import ManifestFaulty
from schemas.manifest import Manifest
from services.registry.manifests import read_manifest


def checked_manifest(path: Path, kind: str = "model") -> Manifest:
    """Return the manifest in a file; `kind` is used where it says none. Raises Misused."""
    from services.agent.steps.checking import value_faults

    try:
        return read_manifest(path, kind, (faults_in, value_faults))
    except ManifestFaulty as error:
        raise Misused(str(error)) from None


def check(arguments: argparse.Namespace) -> int:
    """Read every file and say what is wrong with it."""
    wrong = 0
    known: dict[tuple[str, str, str], tuple[Path, Manifest]] = {}
    for path in arguments.files:
        try:
            manifest = checked_manifest(path)
            key = (manifest.kind, manifest.name, manifest.version)
            first, same = known.setdefault(key, (path, manifest))
            if same != manifest:
                raise Misused(
                    f"{path}: {' '.join(key)} is another in {first}: give it a new version"
                )
        except Misused as error:
            wrong += 1
            print(error, file=sys.stderr)
        else:
            print(f"{path}  {manifest.kind} {manifest.name}:{manifest.version}")
    return exits.USAGE if wrong else exits.OK


def publish(arguments: argparse.Namespace) -> int:
    """Put manifests into the catalog; all are read before the first is sent."""
    return asyncio.run(_publish(arguments))


async def _publish(arguments: argparse.Namespace) -> int:
    manifests = [checked_manifest(path) for path in arguments.files]
    async with client_of(arguments) as client:
        for manifest in manifests:
            await client.publish(manifest)
            print(f"{manifest.kind} {manifest.name}:{manifest.version}")
    return exits.OK


def withdraw(arguments: argparse.Namespace) -> int:
    """Take a manifest out of the catalog."""
    return asyncio.run(_withdraw(arguments))


async def _withdraw(arguments: argparse.Namespace) -> int:
    async with client_of(arguments) as client:
        await client.withdraw(arguments.kind, arguments.name, arguments.version)
    return exits.OK
