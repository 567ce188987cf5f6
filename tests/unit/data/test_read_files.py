"""``SourceFile`` is read exactly as its fields say."""

from __future__ import annotations

import bz2
import datetime as dt
import gzip
import json
import lzma
import zipfile
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from bollhav_provider.data.archive import archive_file, archive_files
from bollhav_provider.data.files import FileVersion, find_files, read_file, scan_file
from bollhav_provider.exceptions import DataError
from bollhav_provider.model import SourceFile

ROWS = [{"id": 1, "name": "Åsa"}, {"id": 2, "name": None}]
CSV = "id,name\n1,Åsa\n2,\n"


def _write(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def _zip(path: Path, members: dict[str, str]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return path


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", CSV),
        ("a.CSV", CSV),
        ("a.txt", CSV.replace(",", "|")),
        ("a.csv", CSV.replace(",", ";")),
        ("a.csv", "\ufeff" + CSV),
        ("a.csv", CSV.encode("utf-16")),
        ("a.csv", CSV.replace("\n", "\r\n")),
        ("a.tsv", CSV.replace(",", "\t")),
        ("a.json", json.dumps(ROWS)),
        ("a.ndjson", "\n".join(map(json.dumps, ROWS)) + "\n"),
        ("a.jsonl", "\n".join(map(json.dumps, ROWS))),
        ("a.csv.gz", gzip.compress(CSV.encode())),
        ("a.csv.bz2", bz2.compress(CSV.encode())),
        ("a.csv.xz", lzma.compress(CSV.encode())),
        ("a.ndjson.gz", gzip.compress("\n".join(map(json.dumps, ROWS)).encode())),
    ],
)
def test_every_format_gives_the_same_rows(tmp_path: Path, name: str, content: str | bytes) -> None:
    source = SourceFile(path=_write(tmp_path / name, content))
    assert read_file(source).rows(named=True) == ROWS
    assert scan_file(source).collect().rows(named=True) == ROWS


def test_parquet_is_read_and_scanned(tmp_path: Path) -> None:
    pl.DataFrame(ROWS).write_parquet(tmp_path / "a.parquet")
    source = SourceFile(path=tmp_path / "a.parquet")
    assert read_file(source).rows(named=True) == ROWS
    assert scan_file(source).collect().rows(named=True) == ROWS


def test_zip_holds_one_or_many_members(tmp_path: Path) -> None:
    one = _zip(tmp_path / "one.csv.zip", {"flights.csv": CSV})
    two = _zip(
        tmp_path / "two.zip",
        {"b.csv": "id,name\n3,c\n", "a.csv": CSV, "__MACOSX/a.csv": "x", ".hidden.csv": "x"},
    )
    assert read_file(SourceFile(path=one)).rows(named=True) == ROWS
    assert read_file(SourceFile(path=two))["id"].to_list() == [1, 2, 3]


def test_globs_join_files_in_order_of_their_names(tmp_path: Path) -> None:
    _write(tmp_path / "2.csv", "name,id\nz,\n")  # other order of columns, and a column without any value
    _write(tmp_path / "1.csv", "id,name\n7,a\n")
    frame = read_file(SourceFile(path=tmp_path / "*.csv"))
    assert frame.rows(named=True) == [{"id": 7, "name": "a"}, {"id": None, "name": "z"}]
    assert frame.schema["id"] == pl.Int64


def test_files_of_one_source_have_the_same_columns_and_types(tmp_path: Path) -> None:
    _write(tmp_path / "1.csv", "id,name\n7,a\n")
    _write(tmp_path / "2.csv", "id,title\n8,b\n")
    with pytest.raises(
        DataError, match=r"2\.csv has not the columns of 1\.csv: it also has 'title' and it lacks 'name'"
    ):
        read_file(SourceFile(path=tmp_path / "*.csv"))
    _write(tmp_path / "2.csv", "id,name\nx8,b\n")
    with pytest.raises(DataError, match=r"column 'id' is Int64 in 1\.csv, String in 2\.csv"):
        read_file(SourceFile(path=tmp_path / "*.csv"))


def test_encoding_is_applied_and_its_lack_is_explained(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.csv", CSV.encode("cp1252"))
    assert read_file(SourceFile(path=path, encoding="cp1252")).rows(named=True) == ROWS
    with pytest.raises(DataError, match=r"byte 10 \(line 2\) is .*xc5.*set the encoding"):
        read_file(SourceFile(path=path))


def test_top_rows_are_removed_even_when_they_are_no_csv(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.csv", 'Report "of\nall; the; things\n' + CSV)
    source = SourceFile(path=path, remove_top_rows=2)
    assert read_file(source).rows(named=True) == ROWS
    assert scan_file(source).collect().rows(named=True) == ROWS


def test_types_are_inferred_from_every_row(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.csv", "x\n" + "1\n" * 5000 + "1.5\n")
    assert read_file(SourceFile(path=path))["x"][-1] == 1.5
    rows = [{"x": None}] * 5000 + [{"x": 1.5}]
    path = _write(tmp_path / "a.json", json.dumps(rows))
    assert read_file(SourceFile(path=path))["x"][-1] == 1.5


def test_dates_are_recognised_and_follow_the_dateformat(tmp_path: Path) -> None:
    path = _write(
        tmp_path / "a.csv", "d,e,word,n\n2024-01-31,31/01/2024,x,20240131\n2024-02-01,01/02/2024,,20240201\n"
    )
    assert read_file(SourceFile(path=path)).schema["d"] == pl.Date
    frame = read_file(SourceFile(path=path, dateformat="%d/%m/%Y"))
    assert frame["e"].to_list() == [dt.date(2024, 1, 31), dt.date(2024, 2, 1)]
    assert frame.schema["word"] == pl.String
    assert frame.schema["n"] == pl.Int64
    frame = read_file(SourceFile(path=path, dateformat="%Y%m%d"), dates=["n"])
    assert frame["n"].to_list() == [dt.date(2024, 1, 31), dt.date(2024, 2, 1)]


def test_a_known_date_that_has_another_format_is_an_error(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.csv", "d\n31/01/2024\n2024-02-31x\n")
    with pytest.raises(DataError, match=r"column 'd', row 2: '2024-02-31x' has not the dateformat"):
        read_file(SourceFile(path=path, dateformat="%d/%m/%Y"), dates=["d"])


def test_null_values_and_a_missing_header(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.csv", "1,NA\n2,x\n")
    frame = read_file(SourceFile(path=path, has_header=False, null_values="NA"))
    assert frame.rows() == [(1, None), (2, "x")]


def test_file_ending_says_what_the_name_does_not(tmp_path: Path) -> None:
    path = _write(tmp_path / "export.2024", CSV.replace(",", "\t"))
    assert read_file(SourceFile(path=path, file_ending="tsv")).rows(named=True) == ROWS
    with pytest.raises(DataError, match=r"ends in '2024', which is none of csv.*set file_ending"):
        read_file(SourceFile(path=path))


@pytest.mark.parametrize("name", ["a.csv", "a.json", "a.ndjson"])
def test_an_empty_file_has_no_rows(tmp_path: Path, name: str) -> None:
    assert read_file(SourceFile(path=_write(tmp_path / name, ""))).height == 0


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.csv", "a,b\n1,2,3\n", "is no csv file as it is described"),
        ("a.json", "{", "is no json file"),
        ("a.parquet", "x", "is no parquet file"),
        ("a.csv.gz", gzip.compress(CSV.encode())[:-9], "is not a complete gz file"),
        ("a.zip", "PK", "is not a complete zip file"),
    ],
)
def test_broken_files_are_named(tmp_path: Path, name: str, content: Any, says: str) -> None:
    with pytest.raises(DataError, match=says):
        read_file(SourceFile(path=_write(tmp_path / name, content)))


def test_missing_files_are_named_with_their_whole_path(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no\.csv does not exist"):
        find_files(SourceFile(path=Path("no.csv")), base=tmp_path)
    with pytest.raises(DataError, match="no file matches"):
        find_files(SourceFile(path=Path("*.csv")), base=tmp_path)
    with pytest.raises(DataError, match=r"is a directory: write a pattern such as .*\*\.csv"):
        find_files(SourceFile(path=tmp_path))


def test_archiving_moves_what_was_read_and_never_overwrites(tmp_path: Path) -> None:
    for number in range(3):
        file = FileVersion.of(_write(tmp_path / "in" / "a.csv.gz", f"{number}"))
        assert archive_file(file, Path("done"), base=tmp_path) is not None
        assert not file.path.exists()
    names = sorted(path.name for path in (tmp_path / "done").iterdir())
    assert names == ["a-1.csv.gz", "a-2.csv.gz", "a.csv.gz"]
    assert (tmp_path / "done" / "a-2.csv.gz").read_text() == "2"


def test_a_file_that_changed_since_it_was_read_is_not_archived(tmp_path: Path) -> None:
    file = FileVersion.of(_write(tmp_path / "a.csv", CSV))
    _write(tmp_path / "a.csv", CSV + "3,new\n")
    assert archive_file(file, tmp_path / "done") is None
    assert file.path.exists()


def test_every_file_is_tried_before_an_archive_error_is_raised(tmp_path: Path) -> None:
    one, two = (FileVersion.of(_write(tmp_path / name, CSV)) for name in ("1.csv", "2.csv"))
    _write(tmp_path / "taken", "a file where a directory should be")
    with pytest.raises(DataError, match="cannot be moved to the archive_folder"):
        archive_files([(one, tmp_path / "taken"), (two, tmp_path / "done")])
    assert (tmp_path / "done" / "2.csv").exists()


@pytest.mark.parametrize(
    "text",
    [
        "a\n2024-01-01\n\n2024-02-03\n",
        "a,b\n,1\n2024-01-01,1\n,2\n",
        "a,b\n2024-01-01,\n2024-13-01,1\n",
        "a,b\n2024-01-01T10:00:00+02:00,1\n2024-01-01T10:00:00Z,2\n",
        "a,b\n01/02/2024,1\n31/01/2024,2\n",
        'a,b\n"2024-01-01",1\n"",2\n',
        "a\n10:11:12\n11:12:13\n",
        "a,b\n" + "2024-01-01,1\n" * 150 + "later,2\n",
    ],
)
def test_dates_are_those_that_polars_finds_over_all_rows(text: str, tmp_path: Path) -> None:
    path = tmp_path / "file.csv"
    path.write_text(text)
    wanted = pl.read_csv(text.encode(), infer_schema_length=None, try_parse_dates=True)
    assert_frame_equal(read_file(SourceFile(path=path)), wanted)
    assert_frame_equal(scan_file(SourceFile(path=path)).collect(), wanted)
