"""The report of a run: report.json from the log, report.html from report.json."""

from walras.report.build import build_report
from walras.report.context import context_of
from walras.report.records import LogRecord, ReportError, RunContext
from walras.report.write import write_report

__all__ = ["LogRecord", "ReportError", "RunContext", "build_report", "context_of", "write_report"]
