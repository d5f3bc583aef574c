"""The grace chain of a job: what each stage of its end is granted, and what the job needs of it.

warning → everything is saved → SIGTERM → the process ends → SIGKILL. The chain holds as long as
its shortest link: a launcher that kills its workers after 30 s ends a checkpoint of 45 s, whatever
the platform grants.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from walras.jobs_log.units import duration_text
from walras_contracts.accounts import AccountsChanged, DrainTerms, PlatformDocument
from walras_contracts.demand import JobSubmitted

DEFAULT_TERMS = PlatformDocument().drains


@dataclass(frozen=True, slots=True)
class Link:
    """One stage: ``granted_ms`` by ``granted_by``, ``needed_ms`` by ``needed_by`` of the job."""

    name: str
    granted_by: str
    granted_ms: int
    needed_by: str
    needed_ms: int

    @property
    def slack_ms(self) -> int:
        """Time to spare; negative where it is too short."""
        return self.granted_ms - self.needed_ms

    @property
    def holds(self) -> bool:
        """Whether it is long enough."""
        return self.slack_ms >= 0

    def words(self) -> str:
        """Return the link for people."""
        return (
            f"{self.name}: {self.granted_by} grants {duration_text(self.granted_ms)}, "
            f"{self.needed_by} needs {duration_text(self.needed_ms)}"
        )

    def warning(self) -> str:
        """Return what is wrong with a link that does not hold, and what to change."""
        by_text, needed_text = duration_text(-self.slack_ms), duration_text(self.needed_ms)
        return (
            f"{self.words()}: {by_text} too short; make {self.needed_by} at most "
            f"{duration_text(self.granted_ms)}, or {self.granted_by} at least {needed_text}"
        )

    def document(self) -> dict[str, str | int | bool]:
        """Return it for ``--json``."""
        return {
            "link": self.name,
            "granted_by": self.granted_by,
            "granted_ms": self.granted_ms,
            "needed_by": self.needed_by,
            "needed_ms": self.needed_ms,
            "holds": self.holds,
        }


def grace_chain(job: JobSubmitted, terms: DrainTerms) -> list[Link]:
    """Return the links of a job in the order of its end; none without a command to run."""
    run = job.run
    if run is None:
        return []
    links = [
        Link(
            "warning to SIGTERM",
            "the platform's warning_ms",
            terms.warning_ms,
            "run.checkpoint",
            run.checkpoint_ms,
        ),
        Link(
            "SIGTERM to SIGKILL",
            "the platform's terminate_ms",
            terms.terminate_ms,
            "run.stop",
            run.stop_ms,
        ),
    ]
    if run.launcher_stop_ms is not None:
        longer, needed_ms = max(
            (("run.stop", run.stop_ms), ("run.checkpoint", run.checkpoint_ms)),
            key=lambda each: each[1],
        )
        links.append(
            Link(
                "launcher to its workers",
                "run.launcher_stop",
                run.launcher_stop_ms,
                longer,
                needed_ms,
            )
        )
    return links


def shortest(links: Sequence[Link]) -> Link | None:
    """Return the link with the least time to spare, the first of equals; None: there are none."""
    return min(links, key=lambda link: link.slack_ms, default=None)


def warnings(links: Sequence[Link]) -> list[str]:
    """Return what is too short, the shortest link first."""
    found = sorted((link for link in links if not link.holds), key=lambda link: link.slack_ms)
    return [
        f"{'the shortest link' if link is found[0] else 'also'}: {link.warning()}" for link in found
    ]


def terms_in_force(changes: Iterable[AccountsChanged], market_time_ms: int) -> DrainTerms:
    """Return the platform's terms at a market time: of the newest version in effect, or defaults.

    Parameters
    ----------
    changes
        Versions of the platform's document; those of other documents are passed over.
    market_time_ms
        When.
    """
    best = -1
    terms = DEFAULT_TERMS
    for change in changes:
        counts = change.effective_ms <= market_time_ms and change.version > best
        if counts and isinstance(change.document, PlatformDocument):
            best, terms = change.version, change.document.drains
    return terms
