"""How the figures of a report are computed, in words that stand in it."""

from collections.abc import Mapping

from walras.report.digests import DEFINITION

DEFINITIONS: Mapping[str, str] = {
    "digests": DEFINITION,
    "tick_to_commit": (
        "wall-clock time at which the transaction with the quotas of barrier n was committed, "
        "minus the earliest timestamp of barrier n in the demand topic, which is when the replay "
        "driver sent it, by its own clock (not when the broker had it); over all barriers that "
        "have both. The commit time of n stands in a header of barrier n + 1. hops_ms: the same "
        "for the topics that follow one another in a cycle; fleet.done closes it. backward: how "
        "many barriers of each topic have a commit before their tick, because a clock was set; "
        "they are in no percentile."
    ),
    "occupancy": "leased / supplied accelerator-time, from usage and supply records",
    "opportunistic_share": "leased time at price 0 on what nobody bought / leased time",
    "wasted_quota": (
        "quota that teams bought and did not occupy, by the figures that placement publishes in "
        "every cycle: each holds until the next one. short_of_devices: the lesser of it and of "
        "what jobs that have the quota and find no devices need; no_fitting_job: the rest, into "
        "which no waiting job of its team fits. Jobs without devices are counted once, in the cell "
        "that has the most free ones, by the devices that each needs."
    ),
    "lost_work": (
        "accelerator-time of leases that were asked to leave and left. repeated: what did not "
        "bring the job nearer to its end, by the run time that was left when the lease was granted "
        "and when its agent freed it; of a job of unknown length, what is unsaved. unsaved: all "
        "that jobs ran which do not declare that they checkpoint, which is what placement counts "
        "as lost when it chooses who leaves. What is repeated beyond that ran in jobs that "
        "checkpoint, since they had saved, or at all if they had not. In the simulated fleet jobs "
        "that have saved go on where they stopped, so both are equal where all that checkpoint "
        "had the time to. Jobs that their teams took back are no preemptions."
    ),
    "drain_times": (
        "from the command to the moment the last part was freed, by its agent, of sessions that "
        "ended so, and as a part of the time to the deadline. Held up: sessions that the guardrail "
        "let wait, for the disruption budget of their team or the distance between drains of a job."
    ),
    "wait_to_first_start": (
        "time a job had spent pending when it first started; jobs that never started are reported "
        "apart. Percentiles are nearest-rank."
    ),
    "price_ratio": (
        "f: mean price a team paid per accelerator-hour / mean price all teams paid; opportunistic "
        "and unbilled use is left out of both. Prices paid are the pool prices in force, at most "
        "the job's limit."
    ),
    "share_ratio": "share of all leased time / share of all income; 1 = use follows income",
    "money": (
        "income, spent, wallet and expired are billing's figures at the last settlement; rated is "
        "computed here from usage and prices up to the end of the window."
    ),
    "money_over_time": (
        "income, spent and wallet are running totals of the ledger's entries at the end of each "
        "interval, as settled; credits and what expired move the wallet too. largest_jobs: the ten "
        "jobs of a team that cost most, by charge lines, corrections and credits to the end of the "
        "log."
    ),
}
