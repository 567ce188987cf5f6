"""The reference page of fields is what the code says."""

from __future__ import annotations

from tools import fields


def test_the_page_of_fields_is_up_to_date() -> None:
    assert fields.PAGE.read_text() == fields.page(), "python -m tools.fields writes it again"


def test_every_field_has_a_description() -> None:
    bare = [
        f"{cls.__name__}.{name}"
        for cls in fields.classes()
        for name, field in cls.model_fields.items()
        if name != "kind" and not field.description
    ]
    assert bare == []
