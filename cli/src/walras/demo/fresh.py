"""A run starts afresh: on a log that nobody wrote to, in a folder without an older report."""

from collections.abc import Mapping
from pathlib import Path

from walras.report.write import HTML_NAME, JSON_NAME
from walras_contracts.topics import Topic
from walras_runtime.kafka.topics_admin import partition_counts

LOGS = "logs"


class LogNotEmptyError(RuntimeError):
    """The broker holds another run's topics: what they say would be taken for this one's."""

    code = "log_not_empty"
    retriable = False


async def expect_no_topics(bootstrap: str, topics: Mapping[str, Topic]) -> None:
    """Check that a broker has none of the registry's topics yet.

    Raises
    ------
    LogNotEmptyError
        It has one: a replay into it would go on where the older one ended.
    """
    found = sorted(await partition_counts(bootstrap, [t.full_name for t in topics.values()]))
    if found:
        others = f" and {len(found) - 1} more" if len(found) > 1 else ""
        raise LogNotEmptyError(
            f"the broker {bootstrap} holds {found[0]}{others} already; the demo needs a log of its "
            "own. Delete the topics walras.*, name another broker in WALRAS_KAFKA_BOOTSTRAP, or "
            "unset it: then one is started for the run"
        )


def remove_results(out: Path) -> None:
    """Remove report and logs of an older run, so that a run that breaks leaves none."""
    for name in (JSON_NAME, HTML_NAME):
        (out / name).unlink(missing_ok=True)
    for log in sorted((out / LOGS).glob("*.log")):
        log.unlink()
