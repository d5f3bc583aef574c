"""Where jobs go: one node, else one domain, chosen so that the rest stays whole."""

import random
from typing import Any

import pytest

from walras_contracts.wait_reasons import WaitReason
from walras_placement.topology import Domain, DomainKey, Places


def places_of(rooms: dict[DomainKey, dict[str, int]]) -> Places:
    """Return places with so much open on the nodes of each domain."""
    places = Places()
    for key, nodes in rooms.items():
        for node, macc in nodes.items():
            places.change_usable(key, 8)
            places.change(key, node, 0, macc)
    return places


def drawn(draw: random.Random) -> dict[DomainKey, dict[str, int]]:
    return {
        ("c", f"d{d}"): {f"n{d}{n}": draw.randint(0, 8) for n in range(draw.randint(1, 5))}
        for d in range(draw.randint(1, 5))
    }


def slowly_filled(nodes: dict[str, int], need: int) -> list[str] | None:
    """The emptiest nodes first, the tightest that has room for the rest."""
    left, chosen = dict(nodes), []
    while need > 0:
        fitting = sorted((macc, name) for name, macc in left.items() if macc >= need)
        whole = sorted((-macc, name) for name, macc in left.items() if macc)
        if not fitting and not whole:
            return None
        name = fitting[0][1] if fitting else whole[0][1]
        chosen.append(name)
        need -= left.pop(name)
    return chosen


@pytest.mark.parametrize("seed", range(200))
def test_the_index_chooses_as_a_search_through_all_nodes_does(seed: int) -> None:
    draw = random.Random(seed)
    rooms = drawn(draw)
    places = places_of(rooms)
    for _ in range(30):
        key = draw.choice(sorted(rooms))
        node = draw.choice(sorted(rooms[key]))
        after = draw.randint(0, 8)
        places.change(key, node, rooms[key][node], after)
        rooms[key][node] = after
        need = draw.randint(1, 25)
        open_macc = {key: sum(nodes.values()) for key, nodes in rooms.items()}
        assert places.open_macc == sum(open_macc.values())

        singles = [
            (macc, open_macc[key], key, name)
            for key, nodes in rooms.items()
            for name, macc in nodes.items()
            if macc >= need
        ]
        expected = min(singles)[2:] if singles else None
        assert places.tightest_node(need) == expected

        ranks = []
        for key, nodes in rooms.items():
            chosen = slowly_filled(nodes, need)
            if chosen is None:
                assert places.domains[key].filled(need) is None
                continue
            rest = sum(nodes[name] for name in chosen) - need
            ranks.append((len(chosen), rest, open_macc[key], key))
            assert places.domains[key].filled(need) == (len(chosen), rest)
            assert places.domains[key].choose(need) == chosen
        assert places.best_domain(need) == (min(ranks)[3] if ranks else None)


def test_a_draft_changes_nothing_of_what_it_was_drawn_from() -> None:
    rooms = {("c", "d1"): {"n1": 4, "n2": 8}, ("c", "d2"): {"n3": 8}}
    places = places_of(rooms)
    before = repr(places.domains)
    draft = places.draft()
    draft.change(("c", "d1"), "n1", 4, 0)
    draft.change(("c", "d2"), "n3", 8, 5)

    assert repr(places.domains) == before
    assert (places.open_macc, draft.open_macc) == (20, 13)
    assert (places.tightest_node(6), draft.tightest_node(6)) == (
        (("c", "d2"), "n3"),
        (("c", "d1"), "n2"),
    )


def test_a_domain_without_usable_devices_is_gone() -> None:
    places = places_of({("c", "d1"): {"n1": 4}})
    places.change(("c", "d1"), "n1", 4, 0)
    places.change_usable(("c", "d1"), -8)
    assert places.domains == {}
    assert Domain().filled(1) is None


def racks(kit: Any) -> list[Any]:
    """Two racks of two nodes of four devices."""
    return [kit.node(f"n{number}", 4, domain=f"rack{number // 2}") for number in range(4)]


@pytest.fixture
def broken(kit: Any) -> Any:
    """A bench on which one device of each of the four nodes is open, two in each rack."""
    bench = kit.bench()
    jobs = [bench.job(f"j{number}", 3) for number in range(4)]
    bench.step(*racks(kit), kit.quota("t1", a=(12, 0, 5)), *jobs)
    assert sorted(node for job in bench.leases.values() for node in job) == ["n0", "n1", "n2", "n3"]
    return bench


def test_a_gang_goes_into_one_domain_and_leaves_the_other_whole(kit: Any) -> None:
    bench = kit.bench()
    bench.step(*racks(kit), kit.quota("t1", a=(16, 0, 5)), bench.job("six", 6))
    bench.step(bench.job("one", 1))
    bench.step(bench.job("eight", 8))

    assert sorted(bench.leases["six"]) == ["n0", "n1"]
    assert sorted(bench.leases["one"]) == ["n1"]
    assert sorted(bench.leases["eight"]) == ["n2", "n3"]


def test_a_gang_waits_for_topology_where_enough_is_free_but_not_together(
    kit: Any, broken: Any
) -> None:
    broken.step(kit.quota("t2", a=(3, 0, 5)), broken.job("gang", 3, team="t2"))
    assert broken.statuses["gang"].reason == WaitReason.TOPOLOGY
    broken.step(kit.quota("t3", a=(2, 0, 5)), broken.job("pair", 2, team="t3"))
    assert broken.statuses["gang"].reason == WaitReason.WAITING_FOR_DEVICES, "two are left"
    broken.step(*broken.freed("pair"))
    assert broken.statuses["gang"].reason == WaitReason.TOPOLOGY
    broken.step(*broken.freed("j0"))
    assert len(broken.leases["gang"]) == 1


def test_a_job_that_is_no_gang_takes_devices_wherever_they_are(kit: Any, broken: Any) -> None:
    broken.step(kit.quota("t2", a=(3, 0, 5)), broken.job("loose", 3, team="t2", gang=False))
    assert sorted(broken.leases["loose"]) == ["n0", "n1", "n2"]


def test_nodes_of_a_cell_that_name_no_domain_are_one_and_cells_are_apart(kit: Any) -> None:
    bench = kit.bench()
    bench.step(
        kit.node("n0", 4, cell="c1"),
        kit.node("n1", 4, cell="c1"),
        kit.node("n2", 4, cell="c2"),
        kit.quota("t1", a=(20, 0, 5)),
        bench.job("both", 8),
        bench.job("never", 12),
    )
    assert sorted(bench.leases["both"]) == ["n0", "n1"]
    status = bench.statuses["never"]
    assert (status.reason, status.available_macc) == (WaitReason.EXCEEDS_SUPPLY, 8000)


def test_single_nodes_are_taken_from_the_domain_that_is_broken_already(kit: Any) -> None:
    bench = kit.bench()
    bench.step(*racks(kit), kit.quota("t1", a=(16, 0, 5)), bench.job("first", 4))
    bench.step(bench.job("second", 4))
    assert [list(bench.leases[name]) for name in ("first", "second")] == [["n0"], ["n1"]]
    bench.step(bench.job("gang", 8))
    assert sorted(bench.leases["gang"]) == ["n2", "n3"]
