"""What starts the processes: torchrun, Slurm, SkyPilot.

Read back, such a file says how many processes there are, and a SkyPilot task on which machines; how
the work is split it leaves to the script.
"""

from __future__ import annotations

import re
import shlex
from typing import Any

from .._error import Error
from . import _yaml
from ._given import section, whole
from ._setup import Found, Setup


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


def read_torchrun(text: str) -> Found:
    r"""How many processes a torchrun line starts, alone or within a script.

    >>> read_torchrun("torchrun --nnodes=2 --nproc-per-node 8 train.py").world
    16
    """
    nodes, each = _option(text, "nnodes") or "1", _option(text, "nproc[-_]per[-_]node")
    if each is None or not each.isdecimal():
        raise Error.of("config", "missing_field", each or "nothing", "a number of --nproc-per-node")
    # Of an elastic range the most counts.
    most = nodes.split(":")[-1]
    if not most.isdecimal():
        raise Error.of("config", "wrong_type", nodes, "a number of --nnodes")
    return Found(world=whole("nnodes", most) * whole("nproc-per-node", each))


def _option(text: str, name: str, start: str = "--") -> str | None:
    """The value of an option in a command line or among a script's directives."""
    found = re.search(rf"{start}{name}(?:=|\s+)(\S+)", text)
    return None if found is None else found[1].strip("\"'")


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


def read_slurm(text: str) -> Found:
    r"""How many processes a batch script starts: those of its torchrun line, else its GPUs.

    >>> read_slurm("#SBATCH --nodes=4\n#SBATCH --gres=gpu:h100:8\nsrun python train.py").world
    32
    """
    directives = "\n".join(line for line in text.splitlines() if line.startswith("#SBATCH"))
    nodes = _option(directives, "nodes") or _option(directives, "N", start="-") or "1"
    each = _option(directives, "gpus-per-node") or _option(directives, "gres")
    # As 8, h100:8 or gpu:h100:8; of a range of nodes the most counts.
    gpus, most = (each or "").split(":")[-1], nodes.split("-")[-1]
    if not gpus.isdecimal() or not most.isdecimal():
        raise Error.of("config", "missing_field", each or "nothing", "--gpus-per-node or --gres")
    return Found(world=whole("nodes", most) * whole("gpus-per-node", gpus))


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
    "v100-sxm2-16": "V100",
    "v100-sxm2-32": "V100-32GB",
}
"""SkyPilot's names of accelerators, where they are not the id in capitals.
Source: SkyPilot, `sky show-gpus` (0.14)."""


def skypilot(setup: Setup, script: str = "train.py") -> str:
    """A SkyPilot task; on spot machines it recovers in another zone and goes on."""
    name = _SKY_NAMES.get(setup.cluster.accelerator, setup.cluster.accelerator.upper())
    resources: dict[str, Any] = {"accelerators": f"{name}:{setup.cluster.gpus_per_node}"}
    if setup.cluster.cloud:
        resources["infra"] = "/".join(filter(None, (setup.cluster.cloud, setup.cluster.region)))
    if setup.cluster.instance:
        resources["instance_type"] = setup.cluster.instance
    if setup.spot:
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


def read_skypilot(text: str) -> Found:
    """The machines of a task."""
    task = _yaml.load(text)
    resources = section(task, "resources")
    nodes = whole("num_nodes", task.get("num_nodes") or 1)
    wanted = resources.get("accelerators")
    if isinstance(wanted, dict) and len(wanted) == 1:
        wanted = ":".join(str(part) for part in next(iter(wanted.items())))
    if not isinstance(wanted, str):
        raise Error.of("config", "missing_field", wanted, "resources.accelerators, as H100:8")
    name, _, count = wanted.partition(":")
    gpus = whole("resources.accelerators", count or 1)
    rows = {theirs: ours for ours, theirs in _SKY_NAMES.items()}
    cluster: dict[str, Any] = {
        "accelerator": rows.get(name, name),
        "nodes": nodes,
        "gpus_per_node": gpus,
    }
    if "instance_type" in resources:
        cluster["instance"] = resources["instance_type"]
    return Found(world=nodes * gpus, cluster=cluster)
