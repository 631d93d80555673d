"""The report: one HTML page of many runs that needs no network and no server."""

from eligrad.analysis.report.page import build_report, write_report

__all__ = ["build_report", "write_report"]
