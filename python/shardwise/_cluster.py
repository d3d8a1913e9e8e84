"""The machines that are here."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class Cluster(dict[str, Any]):
    """Machines in full: the value of a request's ``cluster``, with ways to find and keep it.

    >>> Cluster({"accelerator": "h100-sxm", "nodes": 2, "gpus_per_node": 8})["nodes"]
    2
    """

    @classmethod
    def detect(cls, environ: Mapping[str, str] | None = None) -> Cluster:
        """Reads ``torch.cuda``, the links, and torchrun's or Slurm's environment. Needs torch."""
        from .torch import detect

        return cls(detect(environ))

    @classmethod
    def calibrate(cls, *, seconds: float = 10.0, processes: int = 2) -> Cluster:
        """Measures matrix products, copies and collectives here. Needs torch.

        Args:
            seconds: about how long it may take.
            processes: ranks between which collectives are measured.
        """
        from .torch import calibrate

        return cls(calibrate(seconds=seconds, processes=processes))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Cluster:
        """Reads a cluster file."""
        return cls(json.loads(Path(path).read_text(encoding="utf-8")))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a cluster file, which the command line takes after ``--on``."""
        Path(path).write_text(json.dumps(self, indent=2) + "\n", encoding="utf-8")
