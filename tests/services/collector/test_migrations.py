"""The collector's migrations as databases know them: applied by name, so names are for ever."""

from pathlib import Path

import pytest

from mlscope.database.migrations import Profile, migrations_in
from services.collector import store

_FOLDER = Path(store.__file__).with_name("migrations")
COMMON = (
    "0001_rows",
    "0002_stored_at",
    "0003_settled_batches",
    "0004_links",
    "0005_failed_samples",
    "0006_variants",
    "0007_stored_up_to",
    "0008_saved_runs",
    "0009_saved_up_to",
    "0010_left_up_to",
    "0011_run_visibility",
)
OWN = {
    "postgresql": ("0001_trends", "0002_trend"),
    "timescaledb": ("0001_hypertables", "0002_policies", "0003_trends", "0004_trend"),
}


@pytest.mark.parametrize("profile", ["postgresql", "timescaledb"])
def test_no_migration_is_renamed_or_lost(profile: Profile) -> None:
    known = (*COMMON, *(f"{profile}/{name}" for name in OWN[profile]))
    found = tuple(each.version for each in migrations_in(_FOLDER, profile))
    assert found[: len(known)] == known


def test_the_trend_for_people_is_one_text() -> None:
    (plain,) = (m for m in migrations_in(_FOLDER, "postgresql") if m.version.endswith("_trend"))
    (hyper,) = (m for m in migrations_in(_FOLDER, "timescaledb") if m.version.endswith("_trend"))
    assert "CREATE VIEW trend AS" in plain.sql
    assert hyper.sql == plain.sql
    assert (_FOLDER / f"{hyper.version}.sql").is_symlink()
