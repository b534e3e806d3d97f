"""New files: all of them or none, and nothing is overwritten."""

from collections.abc import Iterator

import pytest

from roocontext.formats.exporter import NewFile, write_new


def failing() -> Iterator[bytes]:
    yield b"some"
    raise OSError(28, "No space left on device")


def test_new_file_is_written_into_new_folders(tmp_path):
    paths = [tmp_path / "a" / "b" / "one", tmp_path / "a" / "two"]
    files, size = write_new(NewFile(path, iter([b"x", b"yz"])) for path in paths)
    assert (files, size) == (paths, 6)
    assert [path.read_bytes() for path in paths] == [b"xyz"] * 2
    assert paths[0].stat().st_mode & 0o777 == 0o600


def test_name_as_long_as_a_name_can_be_is_written(tmp_path):
    file = tmp_path / (85 * "\u6f22")  # 255 bytes
    write_new([NewFile(file, iter([b"x"]))])
    assert list(tmp_path.iterdir()) == [file]


def test_failed_write_leaves_no_file(tmp_path):
    files = [
        NewFile(tmp_path / "a" / "one", iter([b"x"])),
        NewFile(tmp_path / "a" / "b" / "two", failing()),
    ]
    with pytest.raises(OSError, match="No space"):
        write_new(files)
    assert list(tmp_path.iterdir()) == []


def test_existing_file_is_not_overwritten(tmp_path):
    there = tmp_path / "two"
    there.write_text("mine")
    with pytest.raises(FileExistsError):
        write_new([NewFile(tmp_path / "one", iter([b"x"])), NewFile(there, iter([b"y"]))])
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("two", "mine")]


def test_file_that_appears_meanwhile_is_not_overwritten(tmp_path):
    def chunks() -> Iterator[bytes]:
        yield b"x"
        (tmp_path / "two").write_text("theirs")

    files = [NewFile(tmp_path / "one", iter([b"x"])), NewFile(tmp_path / "two", chunks())]
    with pytest.raises(FileExistsError):
        write_new(files)
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("two", "theirs")]
