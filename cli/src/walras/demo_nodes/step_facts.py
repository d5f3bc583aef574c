"""Facts of the training: it went on where it was saved, and ended as if nobody had stopped it."""

from walras.demo_nodes.evidence import Evidence
from walras.demo_nodes.finding import Finding


def step_fact(evidence: Evidence) -> Finding:
    """Check that no step was lost or made twice beyond the checkpoint."""
    found = Finding("steps", "the steps went on from the checkpoint: none lost, none made twice")
    attempts = evidence.journal.attempts
    if not found.expect(len(attempts) == 2, f"{len(attempts)} processes trained, not 2"):
        return found
    first, second = attempts
    saved = max((s.step for s in evidence.checkpoints if s.attempt == first.attempt), default=None)
    made = [*first.steps, *second.steps]
    last = evidence.scenario.subject.steps
    found.figures = {
        "left_after_step": first.steps[-1] if first.steps else 0,
        "checkpoint_step": saved,
        "went_on_after_step": second.begins_after,
        "last_step": made[-1] if made else 0,
        "steps_made_twice": len(made) - len(set(made)),
        "steps_lost": len(set(range(1, last + 1)) - set(made)),
    }
    found.expect(
        first.ended == "leaves", f"the first process ended with {first.ended or 'nothing'}"
    )
    found.expect(
        saved is not None and saved == second.begins_after,
        f"the last checkpoint of the first process is of step {saved}, the second one began after "
        f"step {second.begins_after}",
    )
    found.expect(first.begins_after == 0, f"the first process began after {first.begins_after}")
    for each in attempts:
        expected = tuple(range(each.begins_after + 1, each.begins_after + 1 + len(each.steps)))
        found.expect(each.steps == expected, f"steps of attempt {each.attempt} are not dense")
    lost = found.figures["steps_lost"]
    found.expect(lost == 0, f"{lost} of {last} steps were never made")
    beyond = [step for step in first.steps if saved is not None and step > saved]
    again = sorted(set(first.steps) & set(second.steps) - set(beyond))
    found.expect(not again, f"steps {again[:5]} were made twice although they were saved")
    found.expect(
        first.last_digest == second.begins_digest,
        "the second process began with other weights than were saved",
    )
    return found


def training_fact(evidence: Evidence) -> Finding:
    """Check that the training ended, and with the weights of a run that nobody stopped."""
    found = Finding("training", "the training ended with the very weights of a run in one go")
    attempts = evidence.journal.attempts
    if not found.expect(bool(attempts), "nothing trained at all"):
        return found
    losses = [loss for each in attempts for loss in each.losses]
    last = attempts[-1]
    found.figures = {
        "first_loss": losses[0] if losses else None,
        "last_loss": losses[-1] if losses else None,
        "digest": last.last_digest,
        "digest_in_one_go": evidence.digest_in_one_go,
    }
    found.expect(last.ended == "finished", "its last process did not finish")
    found.expect(
        last.last_digest == evidence.digest_in_one_go,
        "its weights are not those of a run in one go",
    )
    found.expect(bool(losses) and losses[-1] < losses[0], "it learned nothing")
    return found
