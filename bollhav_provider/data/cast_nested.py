"""Lists as PostgreSQL arrays, and structs and lists as JSON."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from bollhav_provider.data.values import NAN_AS_NULL, Check, Rule, Unconvertible, option

_Test = Callable[[pl.Expr, pl.DataType], "pl.Expr | None"]


def array_text(e: pl.Expr, item: pl.Expr, *, quoted: bool) -> pl.Expr:
    """Lists as array literals: ``{"a","b",NULL}``.

    Args:
        e: the column of lists.
        item: an element's text, in terms of ``pl.element()``.
        quoted: False when the elements are array literals themselves.
    """
    if quoted:
        item = item.str.replace_all("\\", "\\\\", literal=True).str.replace_all('"', '\\"', literal=True)
        item = pl.concat_str(pl.lit('"'), item, pl.lit('"')).fill_null("NULL")
    joined = pl.concat_str(pl.lit("{"), e.list.eval(item).list.join(","), pl.lit("}"))
    # Said apart, since some versions of polars make one element of a column that has none. A null list stays null.
    return pl.when(e.list.len() == 0).then(pl.lit("{}")).otherwise(joined)


def ragged(e: pl.Expr, inner: pl.DataType) -> tuple[Check, ...]:
    """The checks that nested lists are rectangular, as PostgreSQL's arrays are."""
    element = pl.element().arr.to_list() if isinstance(inner, pl.Array) else pl.element()
    lengths = e.list.eval(element.list.len())
    uneven = (lengths.list.n_unique() > 1) | e.list.eval(pl.element().is_null() | (element.list.len() == 0)).list.any()
    return (
        Check(
            uneven.fill_null(False),
            "holds nested lists of different lengths, empty or null ones, which no PostgreSQL array can hold",
            "pad them in the function, or declare it jsonb",
        ),
    )


def json_text(e: pl.Expr) -> pl.Expr:
    """Any value as a JSON document; null stays NULL rather than becoming ``null``."""
    # Only structs can be encoded, so the value is wrapped in one, whose frame {"v": } is then cut off.
    wrapped = pl.struct(e.alias("v")).struct.json_encode()
    return pl.when(e.is_null()).then(pl.lit(None, dtype=pl.String)).otherwise(wrapped.str.slice(5).str.head(-1))


def json_checks(e: pl.Expr, dtype: pl.DataType, rule: Rule) -> tuple[Check, ...]:
    """The checks that JSON can hold the values.

    Raises:
        Unconvertible: somewhere inside is a type that JSON has nothing for.
    """
    checks: list[Check] = []
    nan = _any_inside(e, dtype, lambda inner, kind: ~inner.is_finite() if kind.is_float() else None)
    if nan is not None and not rule.allows(NAN_AS_NULL):
        checks.append(
            Check(
                nan.fill_null(False),
                "holds NaN or infinite numbers, which JSON cannot",
                f"replace them in the function, or {option(NAN_AS_NULL)}",
            )
        )
    nul = _any_inside(
        e, dtype, lambda inner, kind: inner.str.contains("\0", literal=True) if kind == pl.String else None
    )
    if nul is not None:
        checks.append(
            Check(
                nul.fill_null(False),
                "holds texts with NUL characters, which jsonb cannot",
                "remove them in the function",
            )
        )
    return tuple(checks)


def _any_inside(e: pl.Expr, dtype: pl.DataType, test: _Test) -> pl.Expr | None:
    """Whether any scalar inside passes a test; None when no scalar of that kind is inside."""
    if isinstance(dtype, pl.Struct):
        found = [
            part
            for field in dtype.fields
            if (part := _any_inside(e.struct.field(field.name), _instance(field.dtype), test)) is not None
        ]
        return pl.any_horizontal([part.fill_null(False) for part in found]) if found else None
    if isinstance(dtype, pl.Array):
        return _any_inside(e.arr.to_list(), pl.List(dtype.inner), test)
    if isinstance(dtype, pl.List):
        inside = _any_inside(pl.element(), _instance(dtype.inner), test)
        return None if inside is None else e.list.eval(inside).list.any()
    if dtype in (pl.Binary, pl.Object, pl.Duration):
        raise Unconvertible(
            f"holds {dtype} in the rows, which JSON has nothing for", "convert it in the function, for instance to text"
        )
    return test(e, dtype)


def _instance(dtype: object) -> pl.DataType:
    return dtype if isinstance(dtype, pl.DataType) else dtype()  # type: ignore[operator]
