"""Structured logs: one JSON object a line on stderr."""

import logging
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


class RateLimit(logging.Filter):
    """Lets each distinct message template of a library through once a second.

    While a broker is away its client writes hundreds of lines a second.
    """

    MOST_TEMPLATES = 1_000

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is let through."""
        if not isinstance(record.msg, str):
            return True  # our own events are dictionaries
        last = self._last.get(record.msg)
        # A wall clock that was set back must not silence a template until it caught up.
        if last is not None and 0.0 <= record.created - last < 1.0:
            return False
        if len(self._last) >= self.MOST_TEMPLATES:
            self._last.clear()  # libraries that format before they log have no end of templates
        self._last[record.msg] = record.created
        return True


def configure_logs(service: str, level: str) -> structlog.stdlib.BoundLogger:
    """Set up logging of the process; return its logger.

    Every line names the service, the level and the time (UTC), whether it is written by a logger
    of ``structlog.get_logger("walras")`` anywhere in the process or by a library.
    """

    def named(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        event["service"] = service
        return event

    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        named,
    ]
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(RateLimit())
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.add_logger_name],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
    )
    logging.getLogger("walras").setLevel(LEVELS[level])
    logger: structlog.stdlib.BoundLogger = structlog.get_logger("walras")
    return logger
