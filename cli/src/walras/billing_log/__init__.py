"""Events of the money topics: from a broker's log, or from files of payloads."""

from walras.billing_log.arguments import (
    add_source_arguments,
    add_window_arguments,
    source_of,
    window_of,
)
from walras.billing_log.errors import BillingLogError
from walras.billing_log.sources import Files, Kafka, Source
from walras.billing_log.window import Window

__all__ = [
    "BillingLogError",
    "Files",
    "Kafka",
    "Source",
    "Window",
    "add_source_arguments",
    "add_window_arguments",
    "source_of",
    "window_of",
]
