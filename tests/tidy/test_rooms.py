"""Every service has the same rooms, and a README that answers the same questions."""

import re

from tests.tidy.tree import Tree, expect_none, repository

ROOMS = ("__main__", "settings", "core", "state", "handlers", "wiring")
QUESTIONS = (
    "Consumes",
    "Decides",
    "Produces",
    "Owns",
    "Does not own",
    "Settings",
    "Failure modes",
)
MAIN_LINES = 40


def services(tree: Tree) -> list[str]:
    return sorted({path.split("/")[1] for path in tree if re.match(r"services/[^/]+/", path)})


def missing_rooms(tree: Tree) -> list[str]:
    faults = []
    for service in services(tree):
        source = f"services/{service}/src/"
        for room in ROOMS:
            found = [p for p in tree if re.fullmatch(rf"{source}[^/]+/{room}\.py", p)]
            if len(found) != 1:
                faults.append(f"services/{service}: no {room}.py")
            elif room == "__main__" and len(tree[found[0]].splitlines()) > MAIN_LINES:
                faults.append(f"{found[0]}: more than {MAIN_LINES} lines")
        if not any(p.startswith(f"services/{service}/tests/test_") for p in tree):
            faults.append(f"services/{service}: no tests")
    return faults


def unanswered_questions(tree: Tree) -> list[str]:
    faults = []
    for service in services(tree):
        text = tree.get(f"services/{service}/README.md")
        if text is None:
            faults.append(f"services/{service}: no README.md")
            continue
        headings = re.findall(r"^(?:\| *)?\*\*(.+?)\.?\*\*|^#+ (.+)$", text, re.MULTILINE)
        found = [bold or title for bold, title in headings]
        places = [found.index(q) if q in found else -1 for q in QUESTIONS]
        missing = [q for q, place in zip(QUESTIONS, places, strict=True) if place < 0]
        if missing:
            faults.append(f"services/{service}/README.md: no {', '.join(missing)}")
        elif places != sorted(places):
            faults.append(f"services/{service}/README.md: order must be {', '.join(QUESTIONS)}")
    return faults


def test_every_service_has_its_rooms() -> None:
    expect_none(missing_rooms(repository()))


def test_every_service_says_what_it_does() -> None:
    expect_none(unanswered_questions(repository()))


def test_the_checks_see_what_is_missing() -> None:
    source = "services/x/src/walras_x"
    tree = {f"{source}/{room}.py": "pass\n" * 41 for room in ROOMS if room != "state"}
    tree["services/x/README.md"] = "# x\n\n**Consumes.** a\n\n**Produces.** b\n"
    assert missing_rooms(tree) == [
        f"{source}/__main__.py: more than 40 lines",
        "services/x: no state.py",
        "services/x: no tests",
    ]
    assert unanswered_questions(tree) == [
        "services/x/README.md: no Decides, Owns, Does not own, Settings, Failure modes"
    ]
    tree["services/x/README.md"] = "".join(f"**{q}.** a\n\n" for q in reversed(QUESTIONS))
    assert "order must be" in unanswered_questions(tree)[0]
