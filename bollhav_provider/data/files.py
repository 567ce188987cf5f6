"""``SourceFile``: which files it means, and their rows as a polars frame, exactly as its fields say."""

from __future__ import annotations

import bz2
import codecs
import glob
import gzip
import io
import lzma
import zipfile
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bollhav_provider.data.file_dates import restore_dates
from bollhav_provider.data.file_times import temporal_columns
from bollhav_provider.exceptions import DataError
from bollhav_provider.model import SourceFile

if TYPE_CHECKING:
    import polars as pl

_FORMATS = {
    "csv": "csv", "txt": "csv", "tsv": "tsv", "tab": "tsv", "json": "json", "ndjson": "ndjson", "jsonl": "ndjson",
    "parquet": "parquet", "pq": "parquet",
}  # fmt: skip
_PACKED = {"gz": gzip.decompress, "bz2": bz2.decompress, "xz": lzma.decompress}
_ARCHIVES = ("zip",)
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SEPARATORS = (",", ";", "\t", "|")


@dataclass(frozen=True, slots=True)
class FileVersion:
    """A file as it was when it was read.

    Attributes:
        path: absolute path.
        modified_ns: its modification time, nanoseconds since 1970.
        size: bytes.
    """

    path: Path
    modified_ns: int
    size: int

    @classmethod
    def of(cls, path: Path) -> FileVersion:
        found = path.stat()
        return cls(path, found.st_mtime_ns, found.st_size)

    def is_current(self) -> bool:
        """Return whether the file is still what was read."""
        try:
            return FileVersion.of(self.path) == self
        except OSError:
            return False


def find_files(
    source: SourceFile, *, base: Path | None = None, what: str = "file"
) -> tuple[FileVersion, ...]:
    """Return the files that a source means, in order of their names.

    Args:
        source: its ``path`` may hold ``*``, ``?``, ``[...]`` and ``**``.
        base: directory that a relative path starts at; the working directory by default.
        what: model and source, named by errors.

    Raises:
        DataError: no such file, or nothing matches.
    """
    path = source.path.expanduser()
    path = path if path.is_absolute() else (base or Path.cwd()) / path
    if path.is_file():
        return (FileVersion.of(path),)
    if glob.has_magic(str(path)):
        found = sorted(Path(name) for name in glob.glob(str(path), recursive=True))
        if files := tuple(FileVersion.of(name) for name in found if name.is_file()):
            return files
        raise DataError(f"{what}: path: no file matches {path}: put one there, or correct the pattern.")
    if path.is_dir():
        raise DataError(f"{what}: path: {path} is a directory: write a pattern such as {path}/*.csv.")
    raise DataError(f"{what}: path: {path} does not exist: put the file there, or correct the path.")


def read_file(
    source: SourceFile,
    *,
    base: Path | None = None,
    dates: Collection[str] = (),
    files: tuple[FileVersion, ...] | None = None,
    what: str = "file",
) -> pl.DataFrame:
    """Read all rows of a source's files.

    Args:
        source: what to read and how.
        base: directory that a relative path starts at.
        dates: columns that are known to be dates or timestamps; ``dateformat`` is applied to them whatever
            they look like. Other columns of text are taken for dates when every value has that format.
        files: what :func:`find_files` found, when it was asked before.
        what: model and source, named by errors.

    Raises:
        DataError: a file is missing, has no known format, cannot be decoded or parsed, or its columns are not
            those of the first one.
    """
    files = files if files is not None else find_files(source, base=base, what=what)
    frames = []
    for file in files:
        for name, content in _contents(source, file.path, what):
            frame = _parse(source, name, content, what)
            frames.append((name, restore_dates(frame, source.dateformat, dates, f"{what}: {name}")))
    return _joined(frames, what)


def scan_file(
    source: SourceFile,
    *,
    base: Path | None = None,
    dates: Collection[str] = (),
    files: tuple[FileVersion, ...] | None = None,
    what: str = "file",
) -> pl.LazyFrame:
    """Return a source's rows lazily; plain CSV, NDJSON and Parquet files are then never held in memory as a
    whole.

    Other files (compressed, other encodings, ``json``, with a ``dateformat``) are read first. Arguments and
    errors are those of :func:`read_file`.
    """
    import polars as pl

    files = files if files is not None else find_files(source, base=base, what=what)
    paths = [file.path for file in files]
    formats = {_format(source, path.name, what)[0] for path in paths}
    plain = not any(_format(source, path.name, what)[1] for path in paths) and len(formats) == 1
    if plain and formats == {"parquet"}:
        return pl.scan_parquet(paths)
    if plain and source.encoding is None and source.dateformat is None and len(paths) == 1:
        if formats == {"ndjson"}:
            return pl.scan_ndjson(paths, infer_schema_length=source.infer_schema_length)
        if formats <= {"csv", "tsv"}:
            with paths[0].open("rb") as file:
                head = file.read(65_536)
            if not any(head.startswith(mark) for mark, _ in _BYTE_ORDER_MARKS):
                return _scan_csv(paths[0], source, _csv_options(source, formats.pop(), head))
    return read_file(source, base=base, dates=dates, files=files, what=what).lazy()


def _format(source: SourceFile, name: str, what: str) -> tuple[str, str | None]:
    """Return a file's format and what it is packed with; ``file_ending`` has the last word on the format."""
    endings = [ending.lower() for ending in name.split(".")[1:]]
    packing = endings.pop() if endings and endings[-1] in (*_PACKED, *_ARCHIVES, "zst") else None
    ending = (source.file_ending or (endings[-1] if endings else "")).lower().lstrip(".")
    inner, _, outer = ending.rpartition(".")
    if outer in (*_PACKED, *_ARCHIVES, "zst"):
        ending, packing = inner, packing or outer
    if ending in _FORMATS:
        return _FORMATS[ending], packing
    if packing in _ARCHIVES and not source.file_ending:
        return "", packing  # the members' own endings say
    raise DataError(
        f"{what}: file_ending: {name!r} ends in {ending or 'nothing'!r}, which is none of "
        f"{', '.join(sorted(_FORMATS))} (perhaps packed with {', '.join((*_PACKED, 'zst', *_ARCHIVES))}): "
        f"set file_ending."
    )


def _contents(source: SourceFile, path: Path, what: str) -> Iterator[tuple[str, bytes | Path]]:
    """Yield what is in a file, unpacked: its name and bytes, or its path when it can be read in place."""
    form, packing = _format(source, path.name, what)
    if packing is None:
        yield path.name, path if form == "parquet" else path.read_bytes()
        return
    try:
        if packing in _ARCHIVES:
            yield from _members(source, path, what)
        elif packing == "zst":
            yield path.name, _unpack_zstd(path.read_bytes(), what, path)
        else:
            yield path.name, _PACKED[packing](path.read_bytes())
    except (OSError, EOFError, zipfile.BadZipFile, lzma.LZMAError) as exc:
        raise DataError(
            f"{what}: {path} is not a complete {packing} file: {exc}. Was it still being copied?"
        ) from exc


def _unpack_zstd(data: bytes, what: str, path: Path) -> bytes:
    try:
        from compression import zstd  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        try:
            import zstandard as zstd  # type: ignore[import-not-found,no-redef,unused-ignore]
        except ImportError:
            raise DataError(
                f"{what}: {path} is packed with zstd: pip install zstandard, or pack it with gz."
            ) from None
        with zstd.ZstdDecompressor().stream_reader(io.BytesIO(data)) as stream:
            return bytes(stream.read())
    return bytes(zstd.decompress(data))


def _members(source: SourceFile, path: Path, what: str) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(path) as archive:
        names = sorted(
            item.filename
            for item in archive.infolist()
            if not item.is_dir()
            and not item.filename.startswith("__MACOSX/")
            and "/." not in f"/{item.filename}"
        )
        if not names:
            raise DataError(f"{what}: {path} is an empty zip archive.")
        for name in names:
            yield f"{path.name}/{name}", archive.read(name)


def _parse(source: SourceFile, name: str, content: bytes | Path, what: str) -> pl.DataFrame:
    import polars as pl

    form = _format(source, name.rpartition("/")[2], what)[0]
    try:
        if form == "parquet":
            return pl.read_parquet(content if isinstance(content, Path) else io.BytesIO(content))
        assert isinstance(content, bytes)
        text = _as_utf8(source, content, f"{what}: {name}")
        if form == "json":
            return _read_json(text, source)
        if form == "ndjson":
            return (
                pl.read_ndjson(io.BytesIO(text), infer_schema_length=source.infer_schema_length)
                if text.strip()
                else pl.DataFrame()
            )
        text = _without_top_rows(text, source.remove_top_rows)
        if not text.strip():
            return pl.DataFrame()
        return _read_csv(text, _csv_options(source, form, text[:65_536]))
    except (pl.exceptions.PolarsError, ValueError, TypeError) as exc:
        raise DataError(f"{what}: {name} is no {form} file as it is described: {_first_line(exc)}") from exc


def _read_json(text: bytes, source: SourceFile) -> pl.DataFrame:
    import polars as pl

    stripped = text.strip()
    if stripped in (b"", b"[]"):
        return pl.DataFrame()
    return pl.read_json(io.BytesIO(stripped), infer_schema_length=source.infer_schema_length)


def _csv_options(source: SourceFile, form: str, head: bytes) -> dict[str, Any]:
    return {
        "separator": source.separator or ("\t" if form == "tsv" else _sniff(head, source.remove_top_rows)),
        "has_header": source.has_header,
        "null_values": list(source.null_values) or None,
        "infer_schema_length": source.infer_schema_length,
    }


def _read_csv(text: bytes, options: dict[str, Any]) -> pl.DataFrame:
    import polars as pl

    frame = pl.read_csv(text, **options)

    def column(name: str, first: int | None) -> pl.Series:
        return frame[name] if first is None else frame[name].drop_nulls().head(first)

    return frame.with_columns(temporal_columns(_texts(frame.schema), column).values())


def _scan_csv(path: Path, source: SourceFile, options: dict[str, Any]) -> pl.LazyFrame:
    import polars as pl

    scanned = pl.scan_csv(path, skip_lines=source.remove_top_rows, **options)
    schema = scanned.collect_schema()

    def column(name: str, first: int | None) -> pl.Series:
        values = scanned.select(name)
        return (values if first is None else values.drop_nulls().head(first)).collect().to_series()

    found = temporal_columns(_texts(schema), column)
    if not found:
        return scanned
    typed = {**schema, **{name: values.dtype for name, values in found.items()}}
    return pl.scan_csv(path, skip_lines=source.remove_top_rows, schema=typed, **options)


def _texts(schema: pl.Schema) -> list[str]:
    import polars as pl

    return [name for name, kind in schema.items() if kind == pl.String]


def _sniff(head: bytes, top_rows: int) -> str:
    """Return the separator that the first line holds most often outside quotes; else a comma."""
    line = b""
    for candidate in _without_top_rows(head, top_rows).splitlines():
        if candidate.strip():
            line = candidate
            break
    outside = b"".join(line.split(b'"')[::2]).decode(errors="replace")
    best = max(_SEPARATORS, key=outside.count)
    return best if outside.count(best) else ","


def _without_top_rows(text: bytes, rows: int) -> bytes:
    at = 0
    for _ in range(rows):
        end = text.find(b"\n", at)
        if end < 0:
            return b""
        at = end + 1
    return text[at:] if at else text


def _as_utf8(source: SourceFile, content: bytes, what: str) -> bytes:
    encoding = source.encoding
    if encoding is None:
        encoding = next((name for mark, name in _BYTE_ORDER_MARKS if content.startswith(mark)), "utf-8")
    elif codecs.lookup(encoding).name == "utf-8":
        encoding = "utf-8-sig"  # a byte order mark is no part of the first column's name
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as exc:
        line = content.count(b"\n", 0, exc.start) + 1
        raise DataError(
            f"{what}: encoding: byte {exc.start} (line {line}) is {content[exc.start : exc.start + 1]!r}, "
            f"which is not "
            f"{encoding}: set the encoding the file was written in, for instance encoding='cp1252'."
        ) from None
    return content if encoding == "utf-8" else text.encode()


def _joined(frames: list[tuple[str, pl.DataFrame]], what: str) -> pl.DataFrame:
    import polars as pl

    filled = [(name, frame) for name, frame in frames if frame.width] or frames[:1]
    first_name, first = filled[0]
    if len(filled) == 1:
        return first
    known: dict[str, Any] = {}
    for _, frame in filled:
        known.update(
            {
                column: frame.schema[column]
                for column in frame.columns
                if frame[column].null_count() < frame.height
            }
        )
    aligned = []
    for name, frame in filled:
        if set(frame.columns) != set(first.columns):
            more = sorted(set(frame.columns) - set(first.columns))
            less = sorted(set(first.columns) - set(frame.columns))
            raise DataError(
                f"{what}: {name} has not the columns of {first_name}: {_difference(more, less)}: the files "
                f"of one source "
                "have the same columns."
            )
        # A column without any value has no type of its own yet.
        empty = [c for c in frame.columns if c in known and frame[c].null_count() == frame.height]
        aligned.append(
            frame.select(first.columns).with_columns(pl.col(c).cast(known[c], strict=False) for c in empty)
        )
    for column in first.columns:
        kinds = {name: frame.schema[column] for (name, _), frame in zip(filled, aligned, strict=True)}
        if len(set(kinds.values())) > 1 and not all(kind.is_numeric() for kind in kinds.values()):
            seen = ", ".join(f"{kind} in {name}" for name, kind in list(kinds.items())[:4])
            raise DataError(
                f"{what}: column {column!r} is {seen}: the files of one source have the same types."
            )
    return pl.concat(aligned, how="vertical_relaxed")


def _difference(more: list[str], less: list[str]) -> str:
    parts = [f"it also has {', '.join(map(repr, more))}"] if more else []
    parts += [f"it lacks {', '.join(map(repr, less))}"] if less else []
    return " and ".join(parts)


def _first_line(exc: BaseException) -> str:
    return str(exc).strip().split("\n", 1)[0]
