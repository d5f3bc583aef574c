"""Constraints on arrays that need no state: items that differ, items in order."""

from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema


@dataclass(frozen=True, slots=True)
class Distinct:
    """Marks a tuple field whose items differ in ``key``.

    Parameters
    ----------
    key
        Attribute that must differ; empty: the item itself.
    ordered
        Whether the keys must also ascend. Ids are ASCII, so the order of strings is the order
        of their UTF-8 bytes.
    """

    key: str = ""
    ordered: bool = False

    def check(self, items: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the items unchanged.

        Raises
        ------
        ValueError
            Two items are equal in the key, or not in order; pydantic turns it into a fault of the
            field.
        """
        seen: dict[Any, int] = {}
        before: Any = None
        for index, item in enumerate(items):
            value = getattr(item, self.key) if self.key else item
            name = f"{self.key} {value}" if self.key else f"{value}"
            if value in seen:
                raise ValueError(f"{name} occurs twice (items {seen[value]} and {index})")
            if self.ordered and index and value < before:
                raise ValueError(f"{name} (item {index}) is not in ascending order")
            seen[value] = index
            before = value
        return items

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        document = handler(schema)
        if not self.key:
            document["uniqueItems"] = True
        else:
            document["x-ascending-by" if self.ordered else "x-distinct-by"] = self.key
        return document
