"""JSON Schema of an event, as it is written to ``schemas/``."""

import json
from typing import Any

from walras_contracts.event import Event
from walras_contracts.topics import PREFIX

DIALECT = "https://json-schema.org/draft/2020-12/schema"

Schema = dict[str, Any]


def event_name(model: type[Event]) -> str:
    """File name of an event without ending: ``job.submitted.v1``."""
    return model.TYPE.removeprefix(PREFIX)


def domain_of(model: type[Event]) -> str:
    """Folder of an event: the module that defines it."""
    return model.__module__.rpartition(".")[2]


def schema_of(model: type[Event]) -> Schema:
    """Return the JSON Schema of the payload, as strict as :func:`decode_edge` save cross checks.

    ``x-distinct-by`` and ``x-ascending-by`` name the attribute in which the items of an array
    differ or ascend; standard validators ignore them.
    """
    document: Schema = {"$schema": DIALECT, "$id": model.TYPE, **model.model_json_schema()}
    definitions: dict[str, Schema] = document.get("$defs", {})
    for field in document["properties"].values():
        discriminator = field.get("discriminator")
        if discriminator is None:
            continue
        # The models give the tag a default for callers in Python; on the wire it is required.
        tag = discriminator["propertyName"]
        for reference in discriminator["mapping"].values():
            choice = definitions[reference.rpartition("/")[2]]
            choice["properties"][tag].pop("default", None)
            choice["required"] = [tag, *(n for n in choice.get("required", []) if n != tag)]
    return document


def schema_text(model: type[Event]) -> str:
    """Return the schema as the text of its file."""
    return json.dumps(schema_of(model), indent=2, ensure_ascii=False) + "\n"
