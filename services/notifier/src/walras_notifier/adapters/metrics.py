"""What the notifier counts for `/metrics`."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge

from walras_notifier.core import Fate
from walras_notifier.dispatching import Report


class Metrics:
    """Deliveries by kind of notice and channel (``webhook`` or ``email``).

    Parameters
    ----------
    registry
        Where they are registered.
    open_deliveries
        Tells how many deliveries are not over.
    """

    def __init__(self, registry: CollectorRegistry, open_deliveries: Callable[[], int]) -> None:
        labels = ["kind", "channel"]
        self._delivered = Counter(
            "walras_notifications_delivered", "Notices brought", labels, registry=registry
        )
        self._retried = Counter(
            "walras_notifications_retried",
            "Attempts that failed and are made again",
            labels,
            registry=registry,
        )
        self._failed = Counter(
            "walras_notifications_failed",
            "Notices given up: expired, or refused by the receiver",
            [*labels, "reason"],
            registry=registry,
        )
        gauge = Gauge(
            "walras_notifications_open", "Deliveries that are not over", registry=registry
        )
        gauge.set_function(open_deliveries)

    def count(self, report: Report) -> None:
        """Count what happened."""
        labels = (report.notice.kind.value, report.receiver.channel)
        if report.fate is Fate.DELIVERED:
            self._delivered.labels(*labels).inc()
        elif report.fate is Fate.RETRIED:
            self._retried.labels(*labels).inc()
        else:
            self._failed.labels(*labels, report.fate.value).inc()
