"""The import is quick and light."""

import subprocess
import sys

PROBE = """
import sys, time
before = set(sys.modules)
start = time.perf_counter()
import shardwise
print(time.perf_counter() - start, *(set(sys.modules) - before))
"""


def test_import_takes_under_50_ms_and_no_dependency():
    times = []
    for _ in range(5):
        seconds, *modules = subprocess.check_output(
            [sys.executable, "-c", PROBE], text=True
        ).split()
        times.append(float(seconds))
        assert not {"torch", "numpy", "pandas"} & set(modules)
    # What else the machine does only adds to it.
    assert min(times) < 0.050


def test_everything_listed_is_there():
    import shardwise

    assert all(hasattr(shardwise, name) for name in shardwise.__all__)
    assert set(shardwise._HOME) <= set(shardwise.__all__)
