"""What still runs on withdrawn devices counts as held: open devices are kept, not given (O18)."""

from typing import Any

from walras_contracts.capacity import NodeState


def test_open_devices_are_reserved_where_no_more_can_start_and_nothing_starts_until_then(
    kit: Any,
) -> None:
    bench = kit.bench()
    bench.step(
        kit.node("n1", 5), kit.node("n2", 2), kit.quota("t1", a=(9, 0, 5)), bench.job("leaves", 2)
    )
    assert list(bench.leases["leaves"]) == ["n2"]
    bench.step(bench.job("leaves_too", 2))
    # Of five usable devices two are held, beside two on n2: one more may be used, three are open.
    bench.step(
        kit.node("n2", 2, state=NodeState.WITHHELD),
        bench.job("leaves_too", 2, cancelled=True),
        bench.job("starts", 1),
        bench.job("waits", 4),
    )
    assert bench.states()["starts"] == "running"
    assert bench.states()["waits"] == "pending"
    figures = bench.figures["a"]
    assert (figures.held_macc, figures.usable_macc) == (5_000, 5_000)
    assert figures.reserved_macc == 2_000

    bench.step(bench.job("late", 1))
    assert bench.states()["late"] == bench.states()["waits"] == "pending"
    bench.step(*bench.freed("leaves", "vacated"))
    assert bench.states()["late"] == bench.states()["waits"] == "pending"
    bench.step(*bench.freed("leaves_too", "vacated"))
    assert bench.states()["waits"] == "running"
    assert bench.states()["late"] == "pending"
