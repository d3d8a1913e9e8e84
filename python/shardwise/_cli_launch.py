"""The commands around a launch: export, check, run, calibrate."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._error import Error
from ._fields import cluster_of, json_file, put
from ._model import model_spec
from ._native import call, call_text
from ._verdict import accepted

if TYPE_CHECKING:
    from .answers import Cluster


def export(given: argparse.Namespace, request: dict[str, Any]) -> int:
    """Plans for a tool and prints the plan in its words."""
    from . import formats
    from ._verbs import plan_request

    if given.to in formats.SHARDINGS:
        asked = {k: v for k, v in request.get("search", {}).items() if v != []}
        request["search"] = {**formats.search(given.to), **asked}
    plan = plan_request(request)
    if not plan.feasible:
        print(plan, end="", file=sys.stderr)
        return 1
    print(formats.export(plan, given.to), end="")
    return 0


def check(given: argparse.Namespace) -> int:
    """Whether what a config file says fits: the gate of a batch system or of CI."""
    from . import formats
    from ._verbs import machines

    try:
        text = Path(given.config).read_text(encoding="utf-8")
    except OSError as e:
        raise Error.of("config", "unknown_name", f"{given.config}: {e}", "a file") from e
    found = formats.read(text, given.format)
    cluster = found.cluster if given.on is None else cluster_of(given.on)
    if cluster is None:
        raise Error.of(
            "cluster", "missing_field", "nothing", "--on, for the file names no machines"
        )
    world = _gpus(machines(cluster))
    if found.world not in {None, world}:
        raise Error.of(
            "config", "conflict", f"{found.world} processes", f"{world}, one for each accelerator"
        )
    request = found.request(model_spec(given.model), cluster, seq_len=given.seq_len, world=world)
    if given.global_batch is not None:
        request["global_batch"] = given.global_batch
    for field, value in given.set:
        put(request, field, value)
    asked = json.dumps(request)
    answer = json.loads(call("estimate", asked))
    print(call_text("estimate", asked), end="")
    return 0 if accepted(answer["fit"]["verdict"], given.tight) else 1


def _gpus(cluster: Cluster) -> int:
    return cluster.nodes * cluster.gpus_per_node


def run(given: argparse.Namespace, request: dict[str, Any]) -> int:
    """Plans, passes the choice by environment, and becomes the command."""
    from ._verbs import machines, plan_request

    command: list[str] = given.command
    if not command:
        raise Error.of("command", "missing_field", "nothing", "-- and a command, as torchrun ...")
    program = shutil.which(command[0])
    if program is None:
        raise Error.of("command", "unknown_name", command[0], "a program that exists")
    search = request.setdefault("search", {})
    if not search.get("shardings"):
        search["shardings"] = (
            ["ddp", "fsdp2"] if _gpus(machines(request["cluster"])) > 1 else ["none"]
        )
    plan = plan_request(request)
    print(str(plan).splitlines()[0], file=sys.stderr)
    if plan.feasible and accepted(plan.best.fit.verdict, given.tight):
        os.environ["SHARDWISE_REQUEST"] = json.dumps(plan.estimate_request)
        sys.stdout.flush()
        os.execv(program, command)
    return 1


def calibrate(given: argparse.Namespace) -> int:
    """Measures this machine and saves a cluster file, or learns from runs that were measured."""
    if given.runs is not None:
        return _learn(given.runs, given.output or "calibration.json")
    from ._cluster import Cluster

    output = given.output or "cluster.json"
    cluster = Cluster.calibrate(seconds=given.seconds, processes=given.processes)
    cluster.save(output)
    row = cluster["accelerator"]
    print(
        f"{output}: {row['name']}, bf16 {row['bf16_tflops']:.3g} TFLOP/s, "
        f"fp32 {row['fp32_tflops']:.3g} TFLOP/s, memory {row['bandwidth_gb_s']:.3g} GB/s"
    )
    if "link" in cluster:
        link = cluster["link"]
        print(f"  {link['kind']}: {link['gb_s']:.3g} GB/s, {link['latency_us']:.3g} us")
    return 0


def _learn(runs: str, output: str) -> int:
    read = json_file(runs, "runs")
    request = json.dumps({"runs": read} if isinstance(read, list) else read)
    learnt = json.loads(call("calibrate", request))["calibration"]
    Path(output).write_text(json.dumps(learnt, indent=2) + "\n", encoding="utf-8")
    print(call_text("calibrate", request), end="")
    return 0
