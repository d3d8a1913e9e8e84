"""Reads the machines that are here: accelerators, their links, the launcher's environment."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from .._error import Error
from .._verbs import machines as usual_machines

if TYPE_CHECKING:
    from ..answers import Cluster as Machines


def detect(environ: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The cluster of this job, as a request's ``cluster`` field.

    Nodes and ranks come from torchrun's or Slurm's environment, accelerators and the memory that
    is free on them from ``torch.cuda``, the others' and NVLink from ``nvidia-smi``.

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
    # A context on every device would take memory there; of the others nvidia-smi tells.
    free = [torch.cuda.mem_get_info(0)[0], *others(memory_table(), here)]
    return machines(
        name=torch.cuda.get_device_properties(0).name,
        usable=min(free),
        gpus=here,
        nodes=nodes_of(env, here),
        joined=joined(topology()),
    )


def machines(
    *, name: str, usable: int, gpus: int, nodes: int, joined: int | None
) -> dict[str, Any]:
    """The cluster field for devices of that name, ``joined`` of which share NVLink."""
    row = accelerator(name)
    cluster: dict[str, Any] = {
        "accelerator": row,
        "nodes": nodes,
        "gpus_per_node": gpus,
        "usable_gib": usable / 2**30,
    }
    usual = usual_machines({"accelerator": row, "gpus_per_node": gpus})
    cluster |= _links(usual, joined)
    cores = os.cpu_count()
    if cores:
        cluster["vcpus"] = cores
    return cluster


def _links(usual: Machines, joined: int | None) -> dict[str, Any]:
    """What the topology shows goes before what such a node usually has."""
    inner, outer, host = (
        "" if channel is None else channel.link
        for channel in (usual.within_domain, usual.within_node, usual.host)
    )
    nvlink = (inner or outer).startswith("nvlink")
    if joined is None or not nvlink:
        return {}
    if joined > 1:
        return {"link_domain": joined}
    return {"link": host if outer.startswith("nvlink") or not outer else outer}


def accelerator(name: str) -> str:
    """The catalogue's name of a device, from what CUDA calls it.

    >>> accelerator("NVIDIA H100 80GB HBM3"), accelerator("NVIDIA GeForce RTX 3080")
    ('h100-sxm', 'rtx-3080')

    Raises:
        Error: for a device that is not in the catalogue.
    """
    short = name.removeprefix("NVIDIA ")
    row = _row(short) or _row(short.removeprefix("GeForce "))
    if row is None:
        raise Error.of(
            "cluster.accelerator",
            "unknown_name",
            f'"{name}"',
            "a device of the catalogue; name the cluster, or measure it with shardwise calibrate",
        )
    return row


def _row(called: str) -> str | None:
    try:
        return usual_machines({"accelerator": called}).accelerator
    except Error:
        return None


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
    return _smi("topo", "-m")


def _smi(*arguments: str) -> str | None:
    command = ["nvidia-smi", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout


def joined(table: str | None) -> int | None:
    r"""Devices that share NVLink, 1 where none do; none when there is no table or one device.

    >>> joined("\tGPU0\tGPU1\nGPU0\t X \tNV18\nGPU1\tNV18\t X ")
    2
    >>> joined("\tGPU0\tGPU1\nGPU0\t X \tPHB\nGPU1\tPHB\t X ")
    1
    """
    if table is None:
        return None
    rows = [line.split() for line in table.splitlines() if line.startswith("GPU")]
    peers = [sum(cell.startswith("NV") for cell in row[1 : len(rows) + 1]) for row in rows]
    return min(peers) + 1 if len(rows) > 1 else None


def memory_table() -> str | None:
    """MiB that are free on each device of this host, if ``nvidia-smi`` is there."""
    return _smi("--query-gpu=memory.free", "--format=csv,noheader,nounits")


def others(table: str | None, gpus: int) -> list[int]:
    r"""Bytes free on each device; none where the table is of other devices than are visible.

    >>> others("81079\n40000\n", 2)
    [85017493504, 41943040000]
    >>> others("81079\n40000\n", 1)
    []
    """
    lines = [] if table is None else table.split()
    if len(lines) != gpus or not all(line.isdigit() for line in lines):
        return []
    return [int(line) << 20 for line in lines]
