"""Whether a verdict lets a run start: the one place that decides."""

from __future__ import annotations

from typing import Literal

Tight = Literal["accept", "refuse"]
"""What to do with a run of which a part of the 80 % interval of its need exceeds what there is."""


def accepted(verdict: str, tight: Tight = "accept") -> bool:
    """Whether a run of this verdict may start.

    ``fits``: all of the 80 % interval of its need is there. ``tight``: a part of it, so that
    ``tight`` decides. ``does_not_fit``: none of it.

    >>> accepted("fits"), accepted("tight"), accepted("tight", "refuse"), accepted("does_not_fit")
    (True, True, False, False)
    """
    return verdict == "fits" or (verdict == "tight" and tight == "accept")
