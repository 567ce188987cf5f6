"""What an input can be beside a relation: a file or an API; and all of these together."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from bollhav_provider.model.base import Bag, Definition, Finding, FrozenDict, Words, shown
from bollhav_provider.model.hardcoded import SourceHardcoded
from bollhav_provider.model.source_model import SourceModel


class SourceFile(Definition):
    """A file, or several by a glob, read with polars exactly as the fields say."""

    _may_be_blank: ClassVar[frozenset[str]] = frozenset({"separator"})

    kind: Literal["file"] = "file"
    path: Path = Field(description="The file; may be a glob.")
    encoding: str | None = Field(default=None, description="Character encoding; not given: UTF-8.")
    separator: str | None = Field(default=None, description="Column separator; not given: by the file's ending.")
    infer_schema_length: int | None = Field(
        default=None, ge=1, le=2**31 - 1, description="Rows that polars looks at for types; not given: all."
    )
    remove_top_rows: int = Field(
        default=0, ge=0, le=2**31 - 1, description="Lines above the header that are no part of the table."
    )
    archive_folder: Path | None = Field(default=None, description="Where the file is moved after the unit's commit.")
    dateformat: str | None = Field(default=None, description="strftime format of dates, for instance `%d/%m/%Y`.")
    file_ending: str | None = Field(
        default=None, description="csv, tsv, json, ndjson or parquet, when the path does not say."
    )
    null_values: Words = Field(default=(), description="Words that mean a missing value, for instance `NA`.")
    has_header: bool = Field(default=True, description="Whether the first line names the columns.")
    extra: Bag = Field(default_factory=FrozenDict, description="Anything your own code wants to know.")

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            path: Path | str,
            encoding: str | None = None,
            separator: str | None = None,
            infer_schema_length: int | None = None,
            remove_top_rows: int = 0,
            archive_folder: Path | str | None = None,
            dateformat: str | None = None,
            file_ending: str | None = None,
            null_values: str | Sequence[str] = (),
            has_header: bool = True,
            extra: Mapping[str, Any] = ...,
            kind: Literal["file"] = "file",
        ) -> None: ...

    def problems(self) -> Iterator[Finding]:
        """Yield what is wrong with the file's description by itself."""
        if not str(self.path).strip() or str(self.path) == ".":
            yield "path", "the path is empty; write where the file is"
        if self.separator is not None and len(self.separator.encode("utf-8", "surrogatepass")) != 1:
            yield "separator", f"{shown(self.separator)} is not one byte; write for instance ',' or '\\t'"
        elif self.separator in ("\n", "\r", '"'):
            yield "separator", f"{self.separator!r} ends or quotes a value already; write for instance ',' or '\\t'"
        if self.encoding is not None:
            try:
                "".encode(self.encoding)
            except (LookupError, ValueError):  # encodings of bytes, such as base64, are no better than unknown ones
                yield (
                    "encoding",
                    f"{shown(self.encoding)} is no encoding that Python knows; write for instance 'utf-8' or 'cp1252'",
                )
        if self.archive_folder is not None and str(self.archive_folder) in (".", ""):
            yield "archive_folder", "it is the worker's own folder, whichever that is; write the path of a folder"


class SourceApi(Definition):
    """An API. Configuration only: your execute function does the calls."""

    kind: Literal["api"] = "api"
    base_url: str | None = Field(default=None, description="Where the API is; not given: the connection says.")
    endpoint: str | None = Field(default=None, description="Path below the base URL.")
    conn_id: str | None = Field(default=None, description="Airflow connection with host, login and password.")
    method: str = Field(default="GET", description="HTTP method.")
    headers: Bag = Field(
        default_factory=FrozenDict, description="Headers without secrets; those belong to the connection."
    )
    params: Bag = Field(default_factory=FrozenDict, description="Query parameters.")
    timeout_seconds: float | None = Field(
        default=None, gt=0, allow_inf_nan=False, description="How long to wait for an answer."
    )
    extra: Bag = Field(default_factory=FrozenDict, description="Anything your own code wants to know.")

    def problems(self) -> Iterator[Finding]:
        """Yield what is wrong with the API's description by itself."""
        if self.base_url is not None and "://" not in self.base_url:
            yield "base_url", f"{self.base_url!r} has no scheme; write 'https://{self.base_url}'"


SourceType = Annotated[SourceModel | SourceFile | SourceApi | SourceHardcoded, Field(discriminator="kind")]
