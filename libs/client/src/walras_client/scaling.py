"""Scaling quotas down to a capacity that has shrunk: integers, the same for every reader."""

from collections.abc import Mapping

from walras_client.sheets import Quota


def scale_down(amounts: Mapping[str, int], capacity: int) -> dict[str, int]:
    """Cut amounts in proportion so that they fit.

    Parameters
    ----------
    amounts
        macc by team, none negative.
    capacity
        macc that are there.

    Returns
    -------
    dict
        The amounts themselves where they fit. Otherwise ``amount * capacity // total``, and one of
        the rest each, in id order, to those with a remainder: their sum is the capacity.
    """
    total = sum(amounts.values())
    if total <= capacity:
        return dict(amounts)
    cut = {team: amounts[team] * capacity // total for team in sorted(amounts)}
    left = capacity - sum(cut.values())
    for team in cut:
        if left == 0:
            break
        if amounts[team] * capacity % total:
            cut[team] += 1
            left -= 1
    return cut


def fit(quotas: Mapping[str, Quota], capacity: int) -> dict[str, Quota]:
    """Cut the quotas of one market to its capacity: opportunistic ones go first."""
    allocated = scale_down({t: q.allocated_macc for t, q in quotas.items()}, capacity)
    left = capacity - sum(allocated.values())
    opportunistic = scale_down({t: q.opportunistic_macc for t, q in quotas.items()}, left)
    return {team: Quota(allocated[team], opportunistic[team]) for team in quotas}
