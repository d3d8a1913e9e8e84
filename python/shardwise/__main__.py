"""``python -m shardwise``."""

from __future__ import annotations

import sys

from .cli import main as run


def main() -> None:
    """The command line."""
    sys.exit(run())


if __name__ == "__main__":
    main()
