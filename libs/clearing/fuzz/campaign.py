"""Starts workers, watches them, keeps what killed or confused them, and goes on behind it."""

import hashlib
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from signal import Signals
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any, Final

from libs.clearing.fuzz.worker import drawn

ROOT: Final = Path(__file__).resolve().parents[3]
POLL_S: Final = 0.1
HANG_S: Final = 20.0
"""No input may take so long; the slowest take some hundredths of a second."""
START_S: Final = 120.0
"""Until its first input a worker only imports: slow where the machine is busy, never a finding."""
FINDINGS_MAX: Final = 20
"""A campaign stops here: more of the same fault tells nothing new."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a campaign runs: it ends after `seconds` or `iterations`, whichever comes first."""

    seed: int
    seconds: float
    iterations: int
    findings_folder: Path
    plant: str | None = None
    hang_s: float = HANG_S


@dataclass(frozen=True, slots=True)
class Finding:
    """An input that did what none may do, and where it was saved."""

    kind: str
    detail: str
    iteration: int
    file: Path


@dataclass(slots=True)
class Outcome:
    """What a campaign saw: inputs by outcome, and findings."""

    tally: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)

    @property
    def inputs(self) -> int:
        """Inputs that were run."""
        return sum(self.tally.values())


def run_campaign(plan: Plan, say: Callable[[str], None] = lambda _: None) -> Outcome:
    """Run the plan; what was found is saved in its folder, with the word of how to draw it again.

    Raises
    ------
    RuntimeError
        A worker ended without a word although nothing killed it: the fuzzer itself is broken.
    """
    position, ends = 0, monotonic() + plan.seconds
    with TemporaryDirectory(prefix="walras-fuzz-") as folder:
        campaign = _Campaign(plan, Path(folder), say)
        while position < plan.iterations and (left_s := ends - monotonic()) > 0:
            position = campaign.stretch(position, left_s)
            if len(campaign.outcome.findings) >= FINDINGS_MAX:
                break
    return campaign.outcome


class _Campaign:
    """A plan, the folder in which workers leave their words, and what came of it so far."""

    def __init__(self, plan: Plan, folder: Path, say: Callable[[str], None]) -> None:
        self.plan = plan
        self.say = say
        self.outcome = Outcome()
        self.current, self.progress = folder / "input", folder / "iteration"
        self.words, self.errors = folder / "words", folder / "errors"

    def stretch(self, first: int, seconds: float) -> int:
        """Run one worker to its end; return the iteration to go on with."""
        self.progress.unlink(missing_ok=True)
        with self.words.open("wb") as out, self.errors.open("wb") as errors:
            worker = subprocess.Popen(
                self._command(first, seconds),
                cwd=ROOT,
                env={**os.environ, "PYTHONFAULTHANDLER": "1"},
                stdout=out,
                stderr=errors,
            )
            hung = _watch(worker, self.progress, self.plan.hang_s)
        following = self._heard()
        if following is None:
            following = self._died(first, worker.returncode, hung=hung)
        return following

    def _command(self, first: int, seconds: float) -> list[str]:
        plan = self.plan
        return [
            *(sys.executable, "-m", "libs.clearing.fuzz.worker", "--seed", str(plan.seed)),
            *("--first", str(first), "--end", str(plan.iterations)),
            *("--seconds", f"{seconds:.1f}", "--current", str(self.current)),
            *("--progress", str(self.progress)),
            *(("--plant", plan.plant) if plan.plant else ()),
        ]

    def _heard(self) -> int | None:
        """Take up what the worker said; return where it ended, None where it was cut short."""
        following = None
        for line in self.words.read_text("utf-8").splitlines():
            word: dict[str, Any] = json.loads(line)
            if "finding" in word:
                data, _, _ = drawn(self.plan.seed, word["iteration"])
                self._keep("exception", word["finding"], word["iteration"], data)
            else:
                self.outcome.tally.update(word["tally"])
                following = int(word["next"])
        return following

    def _died(self, first: int, status: int, *, hung: bool) -> int:
        errors = self.errors.read_text("utf-8", "replace")
        if not self.progress.exists():
            raise RuntimeError(f"the worker did not begin: {errors[-1_000:]}")
        died_at = int(self.progress.read_text("ascii"))
        self.outcome.tally["before a crash or hang"] += died_at + 1 - first
        kind = "hang" if hung else "crash"
        detail = f"no answer within {self.plan.hang_s:g} s" if hung else _ending(status, errors)
        self._keep(kind, detail, died_at, self.current.read_bytes())
        return died_at + 1

    def _keep(self, kind: str, detail: str, iteration: int, data: bytes) -> None:
        """Save an input under its hash, with a page of words beside it."""
        folder = self.plan.findings_folder
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"{kind}-{hashlib.sha256(data).hexdigest()[:16]}.json"
        file.write_bytes(data)
        seed, margin = self.plan.seed, drawn(self.plan.seed, iteration)[1]
        note = f"{kind}: {detail}\nseed {seed}, iteration {iteration}, margin {margin}\n"
        file.with_suffix(".txt").write_text(note, "utf-8")
        self.outcome.findings.append(Finding(kind, detail, iteration, file))
        self.say(f"{kind} at iteration {iteration}: {detail}")


def _watch(worker: subprocess.Popen[bytes], progress: Path, hang_s: float) -> bool:
    """Wait for the end of a worker; end it where it does not move. Return whether it hung."""
    seen, since = -1, monotonic()
    while True:
        with suppress(subprocess.TimeoutExpired):
            worker.wait(POLL_S)
            return False
        now = progress.stat().st_mtime_ns if progress.exists() else 0
        if now != seen:
            seen, since = now, monotonic()
        elif monotonic() - since > (hang_s if now else max(hang_s, START_S)):
            worker.kill()
            worker.wait()
            return True


def _ending(status: int, errors: str) -> str:
    last = errors.strip().splitlines()[-1:] or [""]
    name = Signals(-status).name if status < 0 else f"exit code {status}"
    return f"{name} {last[0]}".strip()
