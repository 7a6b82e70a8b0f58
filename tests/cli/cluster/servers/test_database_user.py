"""The database of root has a user of its own: processes of `nobody` neither read nor trace it."""

import os
import shlex
import signal
import stat
import subprocess
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from cli.cluster.errors import (
    DatabaseFileShared,
    DatabaseHeld,
    DatabaseInitFailed,
    DatabasePlanted,
)
from cli.cluster.servers import database_user
from cli.cluster.servers.database_user import OWN_USERS, hand_over, unprivileged_user, user_of
from cli.cluster.servers.postgres import Postgres
from cli.cluster.servers.postgres_home import PostgresHome, create_data, find_home
from cli.machine_checks import servers
from cli.main import main

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not database_user._has_own_users(), reason="needs root, and all users"
)

OWN = (OWN_USERS[1], OWN_USERS[1])
NOBODY, NOGROUP = unprivileged_user() or (-1, -1)


def as_nobody(command: str) -> "subprocess.Popen[str]":
    """Start a shell's command as another process of `nobody`."""
    return subprocess.Popen(
        ["/bin/sh", "-c", command],
        cwd="/",
        env={"PATH": os.defpath, "LC_ALL": "C"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        user=NOBODY,
        group=NOGROUP,
        extra_groups=[],
    )


def said_to_nobody(command: str) -> str:
    """Return what a command of `nobody` prints."""
    with as_nobody(command) as process:
        return process.communicate()[0]


def processes_of(user: int) -> dict[int, int]:
    """Return the processes of a user, each with its parent."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if path.stat().st_uid == user:
                text = (path / "stat").read_text("ascii", "replace")
                found[int(path.name)] = int(text.rpartition(")")[2].split()[1])
    return found


def owners(paths: Iterable[Path]) -> set[tuple[int, int]]:
    return {(state.st_uid, state.st_gid) for state in (path.lstat() for path in paths)}


def tree(data: Path) -> list[Path]:
    return [data, *data.rglob("*")]


@pytest.fixture
def old_data(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return PGDATA as earlier releases made it, of `nobody`, with one row."""
    with monkeypatch.context() as patched:
        patched.setattr(database_user, "_has_own_users", lambda: False)
        with (
            Postgres(data_folder, durable=False) as server,
            psycopg.connect(server.admin_url(), autocommit=True) as session,
        ):
            session.execute("CREATE TABLE kept AS SELECT 7 AS number")
    data = data_folder / "postgres" / "data"
    assert owners(tree(data)) == {(NOBODY, NOGROUP)}
    return data


def row_of(data_folder: Path) -> object:
    """Start the server, and return the row of an old folder."""
    with (
        Postgres(data_folder, durable=False) as server,
        psycopg.connect(server.admin_url()) as session,
    ):
        return session.execute("SELECT number FROM kept").fetchone()


def test_the_server_is_the_only_process_of_its_user(data_folder: Path) -> None:
    data = data_folder / "postgres" / "data"
    with Postgres(data_folder, durable=False) as server:
        user = data.stat().st_uid
        assert user in OWN_USERS
        assert owners(tree(data)) == {(user, user)}
        found = processes_of(user)
        assert found.pop(server.pid) == os.getpid()
        assert set(found.values()) == {server.pid}
    with Postgres(data_folder, durable=False):
        assert find_home(data_folder).user == (user, user)
        assert data.stat().st_uid == user


def test_a_process_of_nobody_has_no_way_to_the_database(data_folder: Path) -> None:
    rules = data_folder / "postgres" / "data" / "pg_hba.conf"
    with Postgres(data_folder, durable=False) as server:
        assert "Permission denied" in said_to_nobody(f"cat {shlex.quote(str(rules))}")
        assert "not permitted" in said_to_nobody(f"kill -HUP {server.pid}")
        assert "Permission denied" in said_to_nobody(f"cat /proc/{server.pid}/environ")


def test_two_folders_get_two_users(tmp_path: Path) -> None:
    assert user_of(tmp_path / "one") != user_of(tmp_path / "two")


def fake_initdb(folder: Path, script: str) -> PostgresHome:
    """Return a home, whose initdb is a script."""
    programs = folder / "programs"
    programs.mkdir()
    (programs / "initdb").write_text(f"#!/bin/sh\n{script}\n")
    (programs / "initdb").chmod(0o755)
    home = find_home(folder)
    return PostgresHome(home.folder, programs, home.user)


def test_while_initdb_runs_as_nobody_no_other_process_gets_at_it(data_folder: Path) -> None:
    started = data_folder / "started"
    os.mkfifo(started)
    started.chmod(0o622)
    script = f'touch "$2/PG_VERSION"; echo $$ > {started}; exec sleep 60'
    home = fake_initdb(data_folder, script)
    assert home.user is not None
    with ThreadPoolExecutor(1) as pool:
        made = pool.submit(create_data, home, "postgres", "secret", durable=False)
        initdb = int(started.read_text())
        try:
            assert Path(f"/proc/{initdb}").stat().st_uid == NOBODY
            for name in ("data/PG_VERSION", "password"):
                path = home.folder / "data.partial" / name
                assert path.stat().st_uid == NOBODY
                assert "Permission denied" in said_to_nobody(f"cat {path}")
            assert "Permission denied" in said_to_nobody(f"cat /proc/{initdb}/environ")
        finally:
            os.kill(initdb, signal.SIGKILL)
        with pytest.raises(DatabaseInitFailed):
            made.result()


def test_a_folder_of_an_earlier_release_is_handed_over(data_folder: Path, old_data: Path) -> None:
    assert row_of(data_folder) == (7,)
    user = old_data.stat().st_uid
    assert user in OWN_USERS
    assert owners(tree(old_data)) == {(user, user)}
    assert row_of(data_folder) == (7,)
    assert old_data.stat().st_uid == user


def test_login_rules_that_nobody_planted_are_not_heard(data_folder: Path, old_data: Path) -> None:
    (old_data / "pg_hba.conf").write_text("host all all 127.0.0.1/32 trust\n")
    with Postgres(data_folder, durable=False) as server:
        place = f"host=127.0.0.1 port={server.port} user=postgres password=guessed"
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(place)


def test_a_handover_that_was_killed_is_finished(data_folder: Path, old_data: Path) -> None:
    user = OWN_USERS[7]
    os.chown(old_data, user, NOGROUP)
    os.chown(old_data / "base", user, user)
    assert row_of(data_folder) == (7,)
    assert owners(tree(old_data)) == {(user, user)}


def test_links_that_nobody_planted_end_the_handover(tmp_path: Path) -> None:
    data, other = tmp_path / "data", tmp_path / "other"
    (data / "base").mkdir(parents=True)
    other.write_text("another's")
    os.chown(other, NOBODY, NOGROUP)
    link = data / "base" / "1"
    for make, error in (
        (link.symlink_to, DatabasePlanted),
        (link.hardlink_to, DatabaseFileShared),
    ):
        make(other)
        for path in tree(data):
            os.lchown(path, NOBODY, NOGROUP)
        with pytest.raises(error, match="base/1"):
            hand_over(data, OWN)
        assert owners([other]) == {(NOBODY, NOGROUP)}
        link.unlink()
    hand_over(data, OWN)
    assert owners(tree(data)) == {OWN}


def test_a_tablespace_is_kept_by_the_command_that_its_error_names(
    data_folder: Path, old_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = data_folder / "a fast disk"
    place.mkdir()
    os.chown(place, NOBODY, NOGROUP)
    with monkeypatch.context() as patched:
        patched.setattr(database_user, "_has_own_users", lambda: False)
        with (
            Postgres(data_folder, durable=False) as server,
            psycopg.connect(server.admin_url(), autocommit=True) as session,
        ):
            session.execute(f"CREATE TABLESPACE fast LOCATION '{place}'")
            session.execute("ALTER TABLE kept SET TABLESPACE fast")
    (link,) = (old_data / "pg_tblspc").iterdir()
    with pytest.raises(DatabasePlanted) as caught:
        row_of(data_folder)
    user = old_data.stat().st_uid
    own_it = (
        f"chown -R --from={NOBODY} {user}:{user} '{place}' && "
        f"find '{place}' -user {user} '!' -type l -exec chmod go= '{{}}' ';' && "
        f"find '{place}' -user {user} -type l -print -exec false '{{}}' + && "
        f"ln -sfnT '{place}' {link} && chown -h {user}:{user} {link}"
    )
    assert str(caught.value).splitlines() == [
        "`nobody` owns a link among the database's files: you made it, or a process planted it.",
        f"  path: {link}",
        f"  leads_to: {place}",
        f"  if_you_made_it: keep it (a tablespace holds rows), and start again after: {own_it}",
        "  if_you_did_not: look at what it leads to, remove the link alone, and start again",
    ]
    subprocess.run(own_it, shell=True, check=True)
    assert row_of(data_folder) == (7,)
    assert owners([*tree(old_data), *tree(place)]) == {(user, user)}


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """Return where `nobody` can make a link, in its folder `data`; `open` is open to all."""
    (tmp_path / "data" / "pg_tblspc").mkdir(parents=True)
    for path in tree(tmp_path / "data"):
        os.chown(path, NOBODY, NOGROUP)
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o1777)
    return tmp_path / "data" / "pg_tblspc" / "1"


def tablespace(folder: Path) -> Path:
    """Make a folder with one file, both of `nobody`; return the folder."""
    folder.mkdir(parents=True)
    (folder / "rows").write_text("true rows")
    for path in tree(folder):
        os.chown(path, NOBODY, NOGROUP)
    return folder


def advice_about(link: Path, target: Path) -> str:
    """Return what the error says of a link of `nobody` to `target`, if one wants to keep it."""
    link.symlink_to(target)
    os.lchown(link, NOBODY, NOGROUP)
    with pytest.raises(DatabasePlanted) as caught:
        hand_over(link.parents[1], OWN)
    (line,) = (line for line in str(caught.value).splitlines() if "if_you_made_it: " in line)
    return line.partition("if_you_made_it: ")[2]


def follow(advice: str) -> None:
    """Run the command after which an advice says to start again."""
    subprocess.run(advice.partition("start again after: ")[2], shell=True, check=True)


def test_a_link_to_what_is_not_nobody_s_is_alone_in_its_command(
    tmp_path: Path, planted: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    advice = advice_about(planted, other)
    alone = f"ln -sfnT {other} {planted} && chown -h {OWN[0]}:{OWN[1]} {planted}"
    assert advice.endswith(f"start again after: {alone}")


@pytest.mark.parametrize("target", ["2", "1"])  # nothing, itself
def test_a_link_to_nothing_has_no_command(planted: Path, target: str) -> None:
    assert advice_about(planted, Path(target)) == (
        "it leads to nothing: mount what it leads to, or remove the link, and start again"
    )


def test_a_tablespace_is_closed_to_others(tmp_path: Path, planted: Path) -> None:
    place = tablespace(tmp_path / "place")
    for path in tree(place):
        path.chmod(0o777)
    follow(advice_about(planted, place))
    hand_over(tmp_path / "data", OWN)
    assert owners([*tree(place), planted]) == {OWN}
    assert {stat.S_IMODE(path.stat().st_mode) for path in tree(place)} == {0o700}


def test_links_in_a_tablespace_stop_its_command(tmp_path: Path, planted: Path) -> None:
    place = tablespace(tmp_path / "place")
    inner = place / "1"
    inner.symlink_to(tmp_path / "open")
    os.lchown(inner, NOBODY, NOGROUP)
    command = advice_about(planted, place).partition("start again after: ")[2]
    ended = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert (ended.returncode != 0, ended.stdout) == (True, f"{inner}\n")
    with pytest.raises(DatabasePlanted):
        hand_over(tmp_path / "data", OWN)
    inner.unlink()
    subprocess.run(command, shell=True, check=True)
    hand_over(tmp_path / "data", OWN)
    assert owners([*tree(place), planted]) == {OWN}


def test_a_link_over_a_link_of_nobody_becomes_direct(tmp_path: Path, planted: Path) -> None:
    place, hop = tablespace(tmp_path / "place"), tmp_path / "open" / "hop"
    hop.symlink_to(place)
    os.lchown(hop, NOBODY, NOGROUP)
    follow(advice_about(planted, hop))
    hand_over(tmp_path / "data", OWN)
    assert planted.readlink() == place


@pytest.mark.parametrize(
    ("folder", "owner", "mode"), [("top", True, 0o755), ("top", False, 0o777), ("", False, 0o1777)]
)
def test_what_nobody_can_replace_has_no_command(
    tmp_path: Path, planted: Path, folder: str, owner: bool, mode: int
) -> None:
    above = tmp_path / "disk" / folder
    place = tablespace(above / "place")
    above.chmod(mode)
    if owner:
        os.chown(above, NOBODY, NOGROUP)
    assert advice_about(planted, place) == (
        f"move what it leads to first, since `nobody` can replace it in {above}: move it to where "
        "all folders above are root's, make the link again, `chown -h nobody` it, and start again"
    )


def test_a_file_that_a_link_leads_to_is_handed_over_too(tmp_path: Path, planted: Path) -> None:
    file = tmp_path / "postgresql.conf"
    file.touch(mode=0o666)
    os.chown(file, NOBODY, NOGROUP)
    follow(advice_about(planted, file))
    hand_over(tmp_path / "data", OWN)
    assert owners([file, planted]) == {OWN}
    assert not stat.S_IMODE(file.stat().st_mode) & 0o077


def test_a_linked_file_with_further_names_has_no_command(tmp_path: Path, planted: Path) -> None:
    file = tmp_path / "postgresql.conf"
    file.touch()
    os.chown(file, NOBODY, NOGROUP)
    (tmp_path / "open" / "more").hardlink_to(file)
    assert advice_about(planted, file) == (
        "it leads to a file with further names: put a copy in its place, and start again"
    )


def test_names_with_control_characters_have_no_command(tmp_path: Path, planted: Path) -> None:
    said = "a name with control characters: remove it or rename it first"
    assert advice_about(planted, tablespace(tmp_path / "two\nlines")) == said
    planted.unlink()
    file = planted.with_name("two\nlines")
    file.touch()
    os.chown(file, NOBODY, NOGROUP)
    (tmp_path / "more").hardlink_to(file)
    with pytest.raises(DatabaseFileShared) as caught:
        hand_over(tmp_path / "data", OWN)
    assert str(caught.value).splitlines()[1:] == [
        f"  path: {planted.parent}/two lines",
        f"  to_keep_its_rows: {said}",
    ]


def test_a_copy_does_not_follow_a_link_that_nobody_planted(tmp_path: Path, planted: Path) -> None:
    other, file = tmp_path / "other", planted.with_name("file")
    other.write_text("root's")
    file.write_text("nobody's")
    os.chown(file, NOBODY, NOGROUP)
    (tmp_path / "more").hardlink_to(file)
    with pytest.raises(DatabaseFileShared) as caught:
        hand_over(tmp_path / "data", OWN)
    copied = file.with_name("file.copied")
    copied.symlink_to(other)
    os.lchown(copied, NOBODY, NOGROUP)
    follow(str(caught.value))
    assert other.read_text() == "root's"
    hand_over(tmp_path / "data", OWN)
    assert (file.read_text(), file.is_symlink()) == ("nobody's", False)
    assert owners([file, other]) == {OWN, (0, 0)}


def test_a_file_with_two_names_is_kept_by_the_command_that_its_error_names(
    data_folder: Path, old_data: Path
) -> None:
    file, backup = old_data / "PG_VERSION", data_folder / "backup"
    backup.hardlink_to(file)
    with pytest.raises(DatabaseFileShared) as caught:
        row_of(data_folder)
    copy_it = f"cp -pT --remove-destination {file} {file}.copied && mv -T {file}.copied {file}"
    assert str(caught.value).splitlines() == [
        "A file of the database has further names, by which `nobody` could go on changing it.",
        f"  path: {file}",
        f"  its_names: find / -samefile {file}",
        f"  to_keep_its_rows: do not remove it, but start again after: {copy_it}",
    ]
    subprocess.run(copy_it, shell=True, check=True)
    assert row_of(data_folder) == (7,)
    assert owners([backup]) == {(NOBODY, NOGROUP)}


def test_root_s_own_links_and_folders_are_left_alone(tmp_path: Path) -> None:
    data, other = tmp_path / "data", tmp_path / "other"
    (data / "lost+found").mkdir(parents=True)
    other.mkdir()
    (data / "pg_wal").symlink_to(other)
    os.chown(data, NOBODY, NOGROUP)
    hand_over(data, OWN)
    assert owners([data]) == {OWN}
    assert owners([other, data / "pg_wal", data / "lost+found"]) == {(0, 0)}


def test_folders_that_all_could_write_are_closed(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "base").mkdir(parents=True)
    for path in tree(data):
        os.chown(path, NOBODY, NOGROUP)
        path.chmod(0o777)
    hand_over(data, OWN)
    assert {stat.S_IMODE(path.stat().st_mode) for path in tree(data)} == {0o700}


def test_a_process_that_has_a_file_open_ends_the_handover(
    data_folder: Path, old_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_user, "_HELD_AT_MOST_S", 0.0)
    with as_nobody(f"exec 3<>{old_data}/pg_hba.conf; echo; read line") as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(DatabaseHeld, match=f"processes: {holder.pid}"):
            Postgres(data_folder, durable=False).command()
        assert owners(tree(old_data)) == {(NOBODY, NOGROUP)}
        holder.communicate("\n")
    assert row_of(data_folder) == (7,)


def test_a_file_that_was_opened_meanwhile_ends_the_handover_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    os.chown(data, NOBODY, NOGROUP)
    with monkeypatch.context() as patched:
        answers = iter([[], [12345]])
        patched.setattr(database_user, "_holders", lambda *_: next(answers))
        with pytest.raises(DatabaseHeld, match="12345"):
            hand_over(data, OWN)
        patched.setattr(database_user, "_HELD_AT_MOST_S", 0.0)
        patched.setattr(database_user, "_holders", lambda *_: [12345])
        with pytest.raises(DatabaseHeld, match="12345"):
            hand_over(data, OWN)
    hand_over(data, OWN)
    assert owners([data]) == {OWN}


def test_a_server_that_still_runs_keeps_its_files(
    data_folder: Path, old_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_user, "_HELD_AT_MOST_S", 0.0)
    with monkeypatch.context() as patched:
        patched.setattr(database_user, "_has_own_users", lambda: False)
        old = Postgres(data_folder, durable=False).start()
    try:
        with pytest.raises(DatabaseHeld, match=str(old.pid)):
            Postgres(data_folder, durable=False).command()
        # Where root may not look at other processes' files, the command line tells.
        assert old.is_ready()
        assert owners([old_data]) == {(NOBODY, NOGROUP)}
    finally:
        old.stop()


def test_where_there_are_no_such_users_it_is_nobody_and_said_so(
    data_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not database_user.shared_user_caveat()
    monkeypatch.setattr(database_user, "_has_own_users", lambda: False)
    with Postgres(data_folder, durable=False) as server:
        assert Path(f"/proc/{server.pid}").stat().st_uid == NOBODY
    found = {finding.check: finding for finding in servers()}["postgres"]
    assert found.state == "note"
    assert "all that runs as `nobody` here can read and change the database" in found.advice
    # Another's folder: `up` ends at once.
    os.chown(data_folder, 12345, 12345)
    assert main(["up", "--data", str(data_folder)]) == 1
    assert "mlscope up: PostgreSQL runs as `nobody`" in capsys.readouterr().err
    monkeypatch.setenv("MLSCOPE_DATABASE_URL", "postgresql://mlscope@127.0.0.1/mlscope")
    assert main(["up", "--data", str(data_folder)]) == 1
    assert "`nobody`" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("lines", "has_them"),
    [
        ("0 0 4294967295\n", True),
        ("0 100000 65536\n", False),
        ("0 1000 1\n1 100000 1999900000\n", False),
        ("0 1000 1\n1 0 4294967294\n", True),
    ],
)
def test_a_user_namespace_may_lack_the_numbers(lines: str, has_them: bool) -> None:
    assert any(map(database_user._covers_own_users, lines.splitlines())) is has_them


def test_numbers_in_use_are_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert database_user._is_taken(0)
    assert database_user._is_taken(NOBODY)
    free = OWN_USERS[5]
    assert not database_user._is_taken(free)
    with subprocess.Popen(["/bin/sleep", "60"], user=free, group=free, extra_groups=[]) as process:
        assert database_user._is_taken(free)
        process.kill()
    lent = tmp_path / "subuid"
    lent.write_text(f"# lent\nada:100000:65536\nlin:{free}:1\n")
    monkeypatch.setattr(database_user, "_LENT", (lent,))
    assert database_user._is_taken(free)
    assert not database_user._is_taken(free + 1)
