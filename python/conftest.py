"""An option for the full check: with ``--no-skips`` a test that is skipped has failed.

A bare ``pytest`` skips what needs a package that is not there; the full check installs them all, so
there a skip means that something went missing unnoticed.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

# These need torch and the trainers; without them a bare pytest leaves their doctests out.
collect_ignore_glob = [
    pattern
    for package, pattern in (
        ("torch", "shardwise/torch/*.py"),
        ("accelerate", "shardwise/torch/accelerate.py"),
        ("transformers", "shardwise/torch/hf.py"),
        ("pytorch_lightning", "shardwise/torch/lightning.py"),
    )
    if importlib.util.find_spec(package) is None
]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option."""
    parser.addoption("--no-skips", action="store_true", help="a skipped test has failed")


def pytest_configure(config: pytest.Config) -> None:
    """What was left out for a missing package counts as skipped."""
    if config.getoption("no_skips") and collect_ignore_glob:
        raise pytest.UsageError(f"--no-skips, but packages of {collect_ignore_glob} are missing")


def _judged(
    report: pytest.TestReport | pytest.CollectReport, config: pytest.Config
) -> pytest.TestReport | pytest.CollectReport:
    if report.skipped and not hasattr(report, "wasxfail") and config.getoption("no_skips"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        report.outcome = "failed"
        report.longrepr = f"{reason}; no test may be skipped here (--no-skips)"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fails a test that skipped."""
    report = yield
    _judged(report, item.config)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Fails a file that skipped."""
    report = yield
    _judged(report, collector.config)
    return report
