"""JSON paths for people: ``$.document.teams[3].income_local_per_hour``."""

import json
import re

Location = tuple[str | int, ...]

PATH_LENGTH_MAX = 300
QUOTE_LENGTH_MAX = 60

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def clipped(text: str, length: int) -> str:
    """Return the text, cut to ``length`` characters with an ellipsis where it was longer."""
    return text if len(text) <= length else text[: length - 1] + "…"


def quoted(text: str) -> str:
    """Return the text as a short ASCII JSON string: control characters are shown."""
    return json.dumps(clipped(text, QUOTE_LENGTH_MAX))


def json_path(location: Location) -> str:
    """Return the path of a location, at most 300 characters long."""
    steps = ["$"]
    for step in location:
        if isinstance(step, int):
            steps.append(f"[{step}]")
        elif _PLAIN_NAME.fullmatch(step):
            steps.append(f".{clipped(step, QUOTE_LENGTH_MAX)}")
        else:
            steps.append(f"[{quoted(step)}]")
    return clipped("".join(steps), PATH_LENGTH_MAX)
