"""When cyclic garbage is looked for: between steps, not in the middle of one.

A large step makes hundreds of thousands of containers that are gone when it ends. The interpreter
would walk them again and again while they are in use, and find nothing; so it is told to wait for
very many, and the step loop looks for garbage when it has nothing else to do.
"""

import gc
from typing import Final

IN_A_STEP: Final = 1_000_000
"""More new containers than this, and the interpreter does not wait for the loop."""
WORTH_A_LOOK: Final = 50_000
PER_OLDER: Final = 20
"""So many looks at younger containers for one at those that survived them."""


def collect_less_often() -> None:
    """Leave what exists now alone for ever, and look at the rest less often than by default."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(WORTH_A_LOOK, PER_OLDER, PER_OLDER)


def collect_between_steps() -> None:
    """As :func:`collect_less_often`, and leave collecting to :func:`collect_when_idle`.

    Only for a process with a step loop: nobody else would collect.
    """
    collect_less_often()
    gc.set_threshold(IN_A_STEP, PER_OLDER, PER_OLDER)


def collect_when_idle() -> None:
    """Look for garbage as the interpreter would have by its rule, now that nobody waits."""
    new, young, old = gc.get_count()
    if new < WORTH_A_LOOK:
        return
    generation = 0
    if young > PER_OLDER:
        generation = 2 if old > PER_OLDER else 1
    gc.collect(generation)
