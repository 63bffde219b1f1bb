"""Writing: whole or not at all, and nothing but the file itself is touched."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path
from unittest import mock

import pytest

from optsched.errors import InvalidInputError
from optsched.io import require_writable
from optsched.io.files import write_text


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_new_file_has_the_permissions_that_the_umask_leaves(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_text(tmp_path / "a.json", "text\n")
    finally:
        os.umask(before)
    assert (tmp_path / "a.json").read_text() == "text\n"
    assert stat.S_IMODE((tmp_path / "a.json").stat().st_mode) == 0o640
    assert names(tmp_path) == ["a.json"]


def test_a_file_that_is_replaced_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("old")
    path.chmod(0o600)
    write_text(path, "new")
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_files_beside_it_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "a.json.part").write_text("mine")
    write_text(tmp_path / "a.json", "text")
    assert (tmp_path / "a.json.part").read_text() == "mine"
    assert names(tmp_path) == ["a.json", "a.json.part"]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a.json").write_text("old")
    for name in ("a.json", "new.json"):
        (tmp_path / name).symlink_to(tmp_path / "real" / name)
        write_text(tmp_path / name, "new")
        assert (tmp_path / name).is_symlink()
        assert (tmp_path / "real" / name).read_text() == "new"


def test_a_pipe_is_written_into(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    write_text(pipe, "text")
    reader.join()
    assert read == ["text"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_device_is_written_into() -> None:
    write_text("/dev/null", "text")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    with pytest.raises(InvalidInputError, match="/dev/full: cannot be written: No space left"):
        write_text("/dev/full", "text")


@pytest.mark.parametrize("path", ["/dev/stdout", "out.txt"])
def test_stdout_is_continued_where_it_stands(tmp_path: Path, path: str) -> None:
    code = f"from optsched.io.files import write_text; print(1); write_text({path!r}, '2\\n')"
    code += "; print(3)"
    with open(tmp_path / "out.txt", "w") as out:
        subprocess.run([sys.executable, "-c", code], stdout=out, cwd=tmp_path, check=True)
    assert (tmp_path / "out.txt").read_text() == "1\n2\n3\n"


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failure_leaves_what_was_there(tmp_path: Path, error: BaseException) -> None:
    path = tmp_path / "a.json"
    path.write_text("old")
    kind = KeyboardInterrupt if isinstance(error, KeyboardInterrupt) else InvalidInputError
    with mock.patch.object(Path, "replace", side_effect=error), pytest.raises(kind):
        write_text(path, "new")
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a.json"]


@pytest.mark.parametrize("write", [require_writable, lambda path: write_text(path, "text")])
@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("", "is a directory"),
        ("folder", "is a directory"),
        ("missing/a.json", "there is no folder"),
        ("file/a.json", "Not a directory"),
        ("loop", "symbolic links"),
        ("nowhere", "there is no folder"),
        ("x" * 300, "name too long"),
    ],
)
def test_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: object, name: str, what: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "nowhere").symlink_to(tmp_path / "missing" / "a.json")
    before = names(tmp_path)
    with pytest.raises(InvalidInputError, match=f"cannot be written: .*{what}"):
        write(name)  # type: ignore[operator]
    assert names(tmp_path) == before


def test_what_may_not_be_written_is_refused_before(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("old")
    # Told by the system and not by the permission bits, which do not bind the superuser.
    with mock.patch.object(os, "access", return_value=False):
        with pytest.raises(InvalidInputError, match="is not writable"):
            require_writable(path)
        with pytest.raises(InvalidInputError, match=r"folder .* is not writable"):
            require_writable(tmp_path / "new.json")


def test_a_file_in_a_folder_that_takes_no_new_ones_is_written_in_place(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("a longer old text")
    number = path.stat().st_ino
    with mock.patch.object(os, "access", side_effect=lambda p, _: Path(p) != tmp_path):
        write_text(path, "new")
    assert path.read_text() == "new"
    assert path.stat().st_ino == number


def test_what_could_be_written_is_not_touched(tmp_path: Path) -> None:
    require_writable(tmp_path / "new.json")
    require_writable("/dev/full")
    assert names(tmp_path) == []
