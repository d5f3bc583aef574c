"""Errors of the runtime: each carries a code and whether trying again can help."""

from typing import ClassVar


class WalrasError(Exception):
    """Base of all expected errors."""

    code: ClassVar[str] = "error"
    retriable: ClassVar[bool] = False


class InvariantBrokenError(WalrasError):
    """Something that cannot be: the process must end."""

    code = "invariant_broken"


class FencedError(WalrasError):
    """Another process owns this partition now: exit without writing."""

    code = "fenced"


class ProducerFailedError(WalrasError):
    """A transaction failed: drop the state, look at the claim, start again if it is still ours."""

    code = "producer_failed"
    retriable = True


class BrokerUnavailableError(WalrasError):
    """The broker does not answer; it is worth waiting for."""

    code = "broker_unavailable"
    retriable = True


class OffsetGapError(WalrasError):
    """Records that this stage never read are gone from the log."""

    code = "offset_gap"


class PartitionStoppedError(WalrasError):
    """Nothing may be decided past this point of the log, by this build at least.

    Itself: a record of an unknown version on a deciding topic. The stage stops and stays red; it
    does not end, since it would be started again for nothing.
    """

    code = "partition_stopped"


class BarrierFaultError(PartitionStoppedError):
    """A barrier is missing, or two partitions contradict each other: where a step ends is unknown.

    A process that was started again would find the same log, so it stops instead of ending.
    """

    code = "barrier_fault"


class StateUnreadableError(PartitionStoppedError):
    """The stage's own state cannot be given back to this build."""

    code = "state_unreadable"


class StageBrokenError(PartitionStoppedError):
    """A step failed again and again, for no named subject: trying once more would not help."""

    code = "stage_broken"


class TopicMismatchError(WalrasError):
    """The broker's topics are not those of the registry."""

    code = "topic_mismatch"


class StepFailedError(WalrasError):
    """A step failed for one named subject; three times on one barrier halts the subject."""

    code = "step_failed"

    def __init__(self, subject: str, message: str) -> None:
        super().__init__(message)
        self.subject = subject
