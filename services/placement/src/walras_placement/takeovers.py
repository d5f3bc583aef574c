"""Who took whose devices: finds two jobs that evict each other again and again (R1).

A device that a job was evicted from keeps the job's name until somebody is given it, or the job
runs again or ends. Given to another job, it is a takeover between the two; the third one, in
whichever direction, with not too much time between them, is a preemption cycle.
"""

import json
from typing import Final

from walras_placement.shares import Share
from walras_runtime.records import StateChange

LEFT: Final = "~left/"
PAIR: Final = "~pair/"
"""Records of the own state: no id begins with a tilde."""
CYCLE: Final = 3


class Takeovers:
    """Devices that jobs were evicted from, and pairs of jobs that took over from each other."""

    def __init__(self) -> None:
        self._left: dict[str, dict[int, str]] = {}
        self._nodes: dict[str, dict[str, None]] = {}
        self._pairs: dict[tuple[str, str], tuple[int, int]] = {}
        self._changed: dict[str, None] = {}

    def load(self, key: str, value: bytes) -> None:
        """Take back one record of the own state."""
        if key.startswith(PAIR):
            one, _, other = key.removeprefix(PAIR).partition("|")
            count, step = json.loads(value)
            self._pairs[one, other] = (count, step)
            return
        node = key.removeprefix(LEFT)
        self._left[node] = {int(device): job for device, job in json.loads(value).items()}
        for job in self._left[node].values():
            self._nodes.setdefault(job, {})[node] = None

    def leave(self, job: str, share: Share) -> None:
        """Note that a job was evicted from devices, which are free now."""
        self._left.setdefault(share.node, {}).update(dict.fromkeys(share.devices, job))
        self._nodes.setdefault(job, {})[share.node] = None
        self._changed[LEFT + share.node] = None

    def forget(self, job: str) -> None:
        """Note that a job runs again, or ended: nobody takes anything over from it any more."""
        for node in self._nodes.pop(job, {}):
            # Others may have been given all of them.
            devices = self._left.get(node, {})
            left = {device: owner for device, owner in devices.items() if owner != job}
            if len(left) < len(devices):
                self._keep(node, left)

    def take(self, job: str, shares: tuple[Share, ...], step: int, window_steps: int) -> list[str]:
        """Note that a job was given devices; return those that it is now in a cycle with.

        Parameters
        ----------
        job, shares, step
            Who was given what, and when.
        window_steps
            After so long without a takeover a pair begins anew.
        """
        self.forget(job)
        others: dict[str, None] = {}
        for share in shares:
            devices = self._left.get(share.node, {})
            taken = [device for device in share.devices if device in devices]
            if taken:
                others.update({devices[device]: None for device in taken})
                self._keep(share.node, {d: o for d, o in devices.items() if d not in taken})
        found = []
        for other in sorted(others):
            pair = (min(job, other), max(job, other))
            count, last = self._pairs.get(pair, (0, step))
            count = 1 if step - last > window_steps else count + 1
            if count == CYCLE:
                found.append(other)
                self._pairs.pop(pair, None)
            else:
                self._pairs[pair] = (count, step)
            self._changed[f"{PAIR}{pair[0]}|{pair[1]}"] = None
        return found

    def _keep(self, node: str, left: dict[int, str]) -> None:
        if left:
            self._left[node] = left
        else:
            del self._left[node]
        self._changed[LEFT + node] = None

    def drop_old(self, step: int, window_steps: int) -> None:
        """Forget the pairs of which nothing happened for long."""
        for pair in [p for p, (_, last) in self._pairs.items() if step - last > window_steps]:
            del self._pairs[pair]
            self._changed[f"{PAIR}{pair[0]}|{pair[1]}"] = None

    def take_changes(self) -> list[StateChange]:
        """Return the changes of the own state since the last call, by key."""
        changes = []
        for key in sorted(self._changed):
            value: object
            if key.startswith(PAIR):
                one, _, other = key.removeprefix(PAIR).partition("|")
                value = self._pairs.get((one, other))
            else:
                left = self._left.get(key.removeprefix(LEFT), {})
                value = {str(device): left[device] for device in sorted(left)}
            payload = json.dumps(value, separators=(",", ":")).encode() if value else None
            changes.append(StateChange(key, payload))
        self._changed.clear()
        return changes
