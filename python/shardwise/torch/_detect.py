"""Reads the machines that are here: accelerators, their links, the launcher's environment."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from typing import Any

import torch

from .._error import Error


def detect(environ: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The cluster of this job, as a request's ``cluster`` field.

    Nodes and ranks come from torchrun's or Slurm's environment, accelerators and the memory that
    is free on them from ``torch.cuda``, NVLink from ``nvidia-smi``.

    Raises:
        Error: without a GPU, whose place in the catalogue would be a guess.
    """
    env = os.environ if environ is None else environ
    if not torch.cuda.is_available():
        raise Error.of(
            "cluster",
            "missing_field",
            "no GPU here",
            "a cluster by name, as 8xH100-SXM-80GB, or a file of shardwise calibrate",
        )
    here = torch.cuda.device_count()
    properties = torch.cuda.get_device_properties(0)
    free, _ = torch.cuda.mem_get_info(0)
    return machines(
        name=properties.name,
        usable=free,
        gpus=here,
        nodes=nodes_of(env, here),
        linked=nvlinked(topology()),
    )


def machines(
    *, name: str, usable: int, gpus: int, nodes: int, linked: bool | None
) -> dict[str, Any]:
    """The cluster field for devices of that name."""
    cluster: dict[str, Any] = {
        "accelerator": accelerator(name, linked=linked),
        "nodes": nodes,
        "gpus_per_node": gpus,
        "usable_gib": usable / 2**30,
    }
    cores = os.cpu_count()
    if cores:
        cluster["vcpus"] = cores
    return cluster


_NAMES = (
    ("H200", "h200-sxm"),
    ("H100 PCIe", "h100-pcie"),
    ("H100 NVL", "h100-nvl"),
    ("H100", "h100-sxm"),
    ("B200", "b200"),
    ("A100-SXM4-80GB", "a100-sxm-80"),
    ("A100 80GB PCIe", "a100-pcie-80"),
    ("A100-SXM4-40GB", "a100-sxm-40"),
    ("A100-PCIE-40GB", "a100-pcie-40"),
    ("L40S", "l40s"),
    ("A10G", "a10g"),
    ("L4", "l4"),
    ("T4", "t4"),
)
"""What CUDA calls a device, and its row in the catalogue."""


def accelerator(name: str, *, linked: bool | None = None) -> str:
    """The catalogue's name of a device; the device's own where no row is known.

    >>> accelerator("NVIDIA H100 80GB HBM3")
    'h100-sxm'
    >>> accelerator("NVIDIA H100 80GB HBM3", linked=False)
    'h100-pcie'
    """
    for part, row in _NAMES:
        if part in name:
            return "h100-pcie" if row == "h100-sxm" and linked is False else row
    return name.removeprefix("NVIDIA ")


def nodes_of(env: Mapping[str, str], here: int) -> int:
    """Nodes of the job, by torchrun's or Slurm's variables; 1 without them.

    >>> nodes_of({"WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8"}, 8)
    2
    >>> nodes_of({"SLURM_NNODES": "4"}, 8)
    4
    """
    if "WORLD_SIZE" in env:
        local = int(env.get("LOCAL_WORLD_SIZE", here))
        return max(1, int(env["WORLD_SIZE"]) // max(1, local))
    for name in ("SLURM_NNODES", "SLURM_JOB_NUM_NODES"):
        if name in env:
            return int(env[name])
    return 1


def topology() -> str | None:
    """What ``nvidia-smi topo -m`` prints, if it is there."""
    try:
        done = subprocess.run(
            ["nvidia-smi", "topo", "-m"], capture_output=True, text=True, timeout=20, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout


def nvlinked(table: str | None) -> bool | None:
    r"""Whether any two devices share NVLink; none when there is no table or one device.

    >>> nvlinked("\tGPU0\tGPU1\nGPU0\t X \tNV18\nGPU1\tNV18\t X ")
    True
    >>> nvlinked("\tGPU0\tGPU1\nGPU0\t X \tPHB\nGPU1\tPHB\t X ")
    False
    """
    if table is None:
        return None
    rows = [line.split() for line in table.splitlines() if line.startswith("GPU")]
    pairs = [cell for row in rows for cell in row[1 : len(rows) + 1] if cell != "X"]
    if not pairs:
        return None
    return any(cell.startswith("NV") for cell in pairs)
