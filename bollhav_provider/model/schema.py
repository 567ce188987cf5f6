"""The JSON Schema of model documents, for editors; ``python -m bollhav_provider.model.schema`` writes it into
the package."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SCHEMA_FILE = Path(__file__).with_name("model.schema.json")

_TEXT = {"type": "string"}


def model_schema() -> dict[str, Any]:
    """Return the JSON Schema of one YAML document."""
    from pydantic import VERSION

    from bollhav_provider.model.model import Model

    schema = Model.model_json_schema(mode="validation")
    definitions = schema["$defs"]
    source = definitions["Source"]["properties"]
    source["name"] = {**source["name"], "anyOf": [_TEXT, {"type": "array", "items": _TEXT, "minItems": 1}]}
    source["name"].pop("type", None)
    _also(source["type"], {"type": "string", "enum": ["model", "file", "api", "hardcoded"]})
    _also(definitions["TimeChunking"]["properties"]["flexibility"], {"type": "string", "enum": ["fix", "flex"]})
    identity = definitions["Column"]["properties"]["identity"]
    identity["enum"] = [False, True, "always", "by default"]
    identity.pop("const", None)
    schema["properties"]["upstream"]["items"] = {"anyOf": [{"$ref": "#/$defs/Source"}, _TEXT]}
    schema["properties"]["query"]["description"] += " In YAML also the name of an .sql file beside the document."
    schema["properties"]["execute"] = {
        "type": "string",
        "title": "Execute",
        "description": (
            "The execute function: `package.module:function`, or `functions.py:function` for a file "
            "beside the document."
        ),
    }
    version = ".".join(VERSION.split(".")[:2])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$comment": f"Written with pydantic {version}",
        **schema,
        "title": "Model",
    }


def schema_text() -> str:
    """Return the schema as the file in the package holds it."""
    return json.dumps(model_schema(), indent=2, ensure_ascii=False, sort_keys=True) + "\n"


def _also(field: dict[str, Any], other: dict[str, Any]) -> None:
    """Let a field take another form too."""
    kept: dict[str, Any] = {key: field.pop(key) for key in ("title", "description", "default") if key in field}
    choices = field.pop("anyOf", None) or [dict(field)]
    field.clear()
    field.update(kept, anyOf=[*choices, other])


if __name__ == "__main__":
    SCHEMA_FILE.write_text(schema_text(), encoding="utf-8")
