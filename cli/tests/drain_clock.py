"""A clock that a test moves, and what was told when."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class DrainClock:
    """Milliseconds since the start; ``told``: what a command told, with its time."""

    now_ms: int = 0
    told: list[tuple[int, str]] = field(default_factory=list)

    def __call__(self) -> int:
        """Return the time."""
        return self.now_ms

    def tell(self, words: str) -> None:
        """Take what a command tells."""
        self.told.append((self.now_ms, words))
