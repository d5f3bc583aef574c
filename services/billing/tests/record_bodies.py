"""Records with another body than a sound producer would write."""

import json
from dataclasses import replace
from typing import Any, Final

from walras_runtime.records import Output

ABSENT: Final = "absent"
"""As the value of a change: the field is left out."""


def body(output: Output, **changes: Any) -> Output:
    """Return a record under the same key with some fields changed."""
    document = json.loads(output.payload or b"") | changes
    kept = {name: value for name, value in document.items() if value != ABSENT}
    return replace(output, payload=json.dumps(kept).encode())
