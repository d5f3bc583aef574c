"""The sanitizers that `make asan` relies on work here; CI does without none of them."""

from pathlib import Path

from libs.clearing.fuzz.sanitized import NotSanitized, check_that_faults_are_reported, preloaded
from walras_launcher.pytest_plugin import missing


def test_sanitizers_report_the_faults_that_are_planted(tmp_path: Path) -> None:
    try:
        preloaded(tmp_path)
    except NotSanitized as error:
        missing("sanitizers", error)
    check_that_faults_are_reported(tmp_path)
