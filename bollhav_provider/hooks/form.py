"""The form of connection type ``bollhav``, for every Airflow. Imports nothing that every process would pay for.

From 3.2 on Airflow takes it from the provider's info; before, it asks the hook for fields of WTForms.
"""

from __future__ import annotations

from typing import Any

_SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
_TEXT = {"type": ["string", "null"]}

#: Airflow's own fields: which are shown, how they are called, and what is written in them while they are empty.
HIDDEN: tuple[str, ...] = ()
LABELS = {"schema": "Database", "login": "User", "host": "Host or socket directory"}
PLACEHOLDERS = {"port": "5432", "host": "db.example.com", "schema": "warehouse"}
#: Fields of the connection's extra, as Airflow's JSON form has them.
FIELDS: dict[str, dict[str, Any]] = {
    "sslmode": {
        "label": "SSL mode",
        "description": "Whether the connection is encrypted, and whom it has to lead to.",
        "schema": {
            "type": ["string", "null"],
            "enum": [None, *_SSL_MODES],
            "values_display": {"None": "as libpq has it (prefer)"},
        },
    },
    "sslrootcert": {
        "label": "SSL root certificate",
        "description": "Path of the certificate authority's file, on workers, triggerer and API server.",
        "schema": _TEXT,
    },
    "options": {
        "label": "Options",
        "description": "Further server settings of each session, for instance -c search_path=public.",
        "schema": _TEXT,
    },
}


def field_behaviour() -> dict[str, Any]:
    """Return what a hook says of Airflow's own fields."""
    return {"hidden_fields": list(HIDDEN), "relabeling": dict(LABELS), "placeholders": dict(PLACEHOLDERS)}


def widgets() -> dict[str, Any]:
    """Return the further fields as a hook gives them: text, with the choices in the description.

    Raises:
        ImportError: this Airflow has no WTForms; it then shows the extra as JSON.
    """
    from flask_appbuilder.fieldwidgets import BS3TextFieldWidget
    from wtforms import StringField

    made = {}
    for name, field in FIELDS.items():
        choices = [choice for choice in field["schema"].get("enum", ()) if choice]
        said = f"{field['description']} One of {', '.join(choices)}." if choices else field["description"]
        made[name] = StringField(field["label"], widget=BS3TextFieldWidget(), description=said)
    return made
