"""What starts the processes: torchrun, Slurm, SkyPilot."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from . import _yaml

if TYPE_CHECKING:
    from ._setup import Setup


def torchrun(setup: Setup, script: str = "train.py") -> str:
    """The torchrun line of each node."""
    nodes = setup.cluster.nodes
    if nodes == 1:
        head = ["torchrun", "--standalone", f"--nproc-per-node={setup.cluster.gpus_per_node}"]
        return shlex.join([*head, *shlex.split(script)]) + "\n"
    words = [
        "torchrun",
        f"--nnodes={nodes}",
        f"--nproc-per-node={setup.cluster.gpus_per_node}",
        "--rdzv-backend=c10d",
        '--rdzv-endpoint="$MASTER_ADDR:29500"',
        script,
    ]
    return " ".join(words) + "\n"


def slurm(setup: Setup, script: str = "train.py") -> str:
    """A batch script for ``sbatch``: one task a node, torchrun within it."""
    limit = (
        [] if setup.cluster.vcpus is None else [f"#SBATCH --cpus-per-task={setup.cluster.vcpus}"]
    )
    lines = [
        "#!/bin/bash",
        "#SBATCH --job-name=train",
        f"#SBATCH --nodes={setup.cluster.nodes}",
        "#SBATCH --ntasks-per-node=1",
        f"#SBATCH --gpus-per-node={setup.cluster.gpus_per_node}",
        *limit,
        "#SBATCH --exclusive",
        "",
        "set -euo pipefail",
        'export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)',
        "srun " + torchrun(setup, script).rstrip("\n"),
    ]
    return "\n".join(lines) + "\n"


_SKY_NAMES = {
    "h100-sxm": "H100",
    "h200-sxm": "H200",
    "b200": "B200",
    "a100-sxm-80": "A100-80GB",
    "a100-sxm-40": "A100",
    "l4": "L4",
    "l40s": "L40S",
    "t4": "T4",
    "a10g": "A10G",
    "v100-sxm-16": "V100",
    "v100-sxm-32": "V100-32GB",
}
"""SkyPilot's names of accelerators, where they are not the id in capitals.
Source: SkyPilot, `sky show-gpus` (0.14)."""


def skypilot(setup: Setup, script: str = "train.py", *, spot: bool | None = None) -> str:
    """A SkyPilot task; on spot machines it recovers in another zone and goes on."""
    name = _SKY_NAMES.get(setup.cluster.accelerator, setup.cluster.accelerator.upper())
    resources: dict[str, Any] = {"accelerators": f"{name}:{setup.cluster.gpus_per_node}"}
    if setup.cluster.cloud:
        resources["infra"] = "/".join(filter(None, (setup.cluster.cloud, setup.cluster.region)))
    if setup.cluster.instance:
        resources["instance_type"] = setup.cluster.instance
    if spot:
        resources |= {
            "use_spot": True,
            "job_recovery": {"strategy": "EAGER_NEXT_REGION", "max_restarts_on_errors": 3},
        }
    ranks = (
        f"torchrun --nnodes=$SKYPILOT_NUM_NODES --node-rank=$SKYPILOT_NODE_RANK "
        f"--nproc-per-node=$SKYPILOT_NUM_GPUS_PER_NODE "
        f'--master-addr=$(echo "$SKYPILOT_NODE_IPS" | head -n1) --master-port=29500 {script}'
    )
    return _yaml.dump(
        {
            "name": "train",
            "num_nodes": setup.cluster.nodes,
            "resources": resources,
            "workdir": ".",
            "run": f"set -e\n{ranks}\n",
        }
    )
