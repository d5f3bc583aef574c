"""What is fuzzed: the path of `walras clear`, in process, with everything that may judge it.

An input is either refused with `ClearingInputError`, or cleared; then the result must satisfy
`verify`, survive its JSON form, and equal the specification where that is quick to compute.
"""

from typing import Final

from walras_clearing import ClearingInputError, clear, clear_reference, verify
from walras_clearing.instance import parse_instance, parse_result, result_to_json
from walras_clearing.model import Margin

REFERENCE_JOBS: Final = 40
"""Up to so many jobs the specification is asked too."""


class Unsound(AssertionError):  # noqa: N818 -- a finding, reported by its name
    """The library accepted an input and then contradicted itself."""


def run_input(data: bytes, margin: Margin, *, reference: bool) -> str:
    """Run one input; return ``cleared`` or the code with which it was refused.

    Raises
    ------
    Unsound
        The result is refused by `verify`, changes in JSON, or is not that of the specification.
    """
    try:
        market = parse_instance(data, margin=margin)
    except ClearingInputError as error:
        # What the command prints must be printable, whatever the input was.
        str(error).encode("ascii", "backslashreplace")
        return error.code
    result = clear(market)
    if violations := verify(market, result):
        raise Unsound(f"verify: {violations[0]}")
    if parse_result(result_to_json(result)) != result:
        raise Unsound("the result changes on its way through JSON")
    jobs = sum(len(team.jobs) for team in market.teams)
    if reference and jobs <= REFERENCE_JOBS and clear_reference(market) != result:
        raise Unsound("the result is not that of the specification")
    return "cleared"
