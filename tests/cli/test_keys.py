"""`mlscope keys`: secrets for containers."""

import argparse
import os
from pathlib import Path

from cli.commands.keys import keys
from mlscope.bus.permissions import PERMISSIONS


def make(out: Path) -> dict[str, str]:
    assert keys(argparse.Namespace(out=out, owner=os.getuid())) == 0
    secrets = [path for path in out.rglob("*") if path.is_file() and path.name != "nats.conf"]
    return {str(path.relative_to(out)): path.read_text() for path in secrets}


def test_every_name_has_its_own_seed(tmp_path: Path) -> None:
    made = make(tmp_path)
    seeds = {made[f"{name}/seed.nk"] for name in PERMISSIONS}
    assert len(seeds) == len(PERMISSIONS)
    assert {"gateway/token", "database/password"} <= set(made)


def test_secrets_outlive_a_restart(tmp_path: Path) -> None:
    assert make(tmp_path) == make(tmp_path)


def test_only_the_owner_reads_a_seed(tmp_path: Path) -> None:
    make(tmp_path)
    assert (tmp_path / "agent" / "seed.nk").stat().st_mode & 0o077 == 0


def test_the_broker_learns_public_keys_only(tmp_path: Path) -> None:
    made = make(tmp_path)
    conf = (tmp_path / "nats" / "nats.conf").read_text()
    assert conf.count("nkey:") == len(PERMISSIONS)
    assert not any(secret.strip() in conf for secret in made.values())
