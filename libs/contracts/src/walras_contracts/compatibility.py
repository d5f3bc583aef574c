"""What may change in a released event, and what needs a new version (``schemas/README.md``).

A release has two kinds of counterparts: records that it wrote, which today's build must read, and
its own readers, which must read what today's build writes (a rollback, a rolling restart, another
team's consumer). So the set of values of a released field neither shrinks nor grows; the one
change that both sides survive is a new field with a default.
"""

from typing import Any

from walras_contracts.json_schema import Schema

_ANNOTATIONS = frozenset({"$schema", "$id", "$defs", "title", "description", "discriminator"})
_HANDLED = frozenset(
    {"type", "anyOf", "oneOf", "properties", "required", "default", "enum", "minimum", "maximum"}
    | {"items"}
)
_ABSENT = object()


def breaking_changes(released: Schema, current: Schema) -> list[str]:
    """Return what in ``current`` breaks the released schema; empty if nothing does.

    Parameters
    ----------
    released, current
        JSON Schemas as :func:`walras_contracts.json_schema.schema_of` makes them. Titles and
        descriptions may differ.

    Returns
    -------
    list[str]
        One line per change: JSON path of the field (``[]`` for items), and what changed.
    """
    changes: list[str] = []
    _compare("$", _inlined(released, released), _inlined(current, current), changes)
    return changes


def _inlined(node: Any, root: Schema) -> Any:
    """Return the schema without references and annotations; events are trees, so this ends."""
    if isinstance(node, list):
        return [_inlined(item, root) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        target = root["$defs"][node["$ref"].rpartition("/")[2]]
        return _inlined({**target, **{k: v for k, v in node.items() if k != "$ref"}}, root)
    plain: Schema = {}
    for keyword, value in node.items():
        if keyword == "properties":
            plain[keyword] = {name: _inlined(field, root) for name, field in value.items()}
        elif keyword not in _ANNOTATIONS:
            plain[keyword] = _inlined(value, root)
    return plain


def _compare(path: str, old: Schema, new: Schema, changes: list[str]) -> None:
    if _shape(old) != _shape(new):
        changes.append(f"{path}: type changed from {_shape(old)} to {_shape(new)}")
        return
    _compare_limits(path, old, new, changes)
    _compare_members(path, old, new, changes)
    if old.get("default", _ABSENT) != new.get("default", _ABSENT):
        changes.append(
            f"{path}: default changed from {_shown(old, 'default')} to {_shown(new, 'default')}"
        )
    for keyword in sorted((old.keys() | new.keys()) - _HANDLED):
        if old.get(keyword, _ABSENT) != new.get(keyword, _ABSENT):
            changes.append(
                f"{path}: {keyword} changed from {_shown(old, keyword)} to {_shown(new, keyword)}"
            )
    _compare_fields(path, old, new, changes)
    if "items" in old and "items" in new:
        _compare(f"{path}[]", old["items"], new["items"], changes)
    elif ("items" in old) != ("items" in new):
        changes.append(f"{path}: items changed")
    for before, after in zip(_choices(old), _choices(new), strict=True):
        _compare(path, before, after, changes)


def _compare_limits(path: str, old: Schema, new: Schema, changes: list[str]) -> None:
    for keyword, tighter in (("minimum", 1), ("maximum", -1)):
        before, after = old.get(keyword), new.get(keyword)
        if before == after:
            continue
        narrowed = before is None or (after is not None and (after - before) * tighter > 0)
        change = "narrowed" if narrowed else "widened"
        changes.append(
            f"{path}: range {change}: {keyword} {_shown(old, keyword)} is now "
            f"{_shown(new, keyword)}"
        )


def _compare_members(path: str, old: Schema, new: Schema, changes: list[str]) -> None:
    before, after = old.get("enum", []), new.get("enum", [])
    changes.extend(f"{path}: value {value!r} removed" for value in before if value not in after)
    changes.extend(f"{path}: value {value!r} added" for value in after if value not in before)


def _compare_fields(path: str, old: Schema, new: Schema, changes: list[str]) -> None:
    before, after = old.get("properties", {}), new.get("properties", {})
    required_before, required_after = old.get("required", []), new.get("required", [])
    for name, field in before.items():
        if name not in after:
            changes.append(f"{path}.{name}: field removed")
            continue
        if (name in required_before) != (name in required_after):
            now = "required" if name in required_after else "optional"
            changes.append(f"{path}.{name}: the field is now {now}")
        _compare(f"{path}.{name}", field, after[name], changes)
    changes.extend(
        f"{path}.{name}: new field without a default"
        for name in after
        if name not in before and (name in required_after or "default" not in after[name])
    )


def _choices(schema: Schema) -> list[Schema]:
    choices: list[Schema] = schema.get("anyOf") or schema.get("oneOf") or []
    return sorted(choices, key=_shape)


def _shape(schema: Schema) -> str:
    """Name of the kind of value: what must be equal before a comparison makes sense."""
    if "anyOf" in schema or "oneOf" in schema:
        return " or ".join(_shape(choice) for choice in _choices(schema))
    kind = str(schema.get("type", "anything"))
    tags = [
        str(field["const"])
        for field in schema.get("properties", {}).values()
        if isinstance(field, dict) and "const" in field
    ]
    return f"{kind} {'/'.join(tags)}" if tags else kind


def _shown(schema: Schema, keyword: str) -> str:
    return repr(schema[keyword]) if keyword in schema else "none"
