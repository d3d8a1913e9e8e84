"""Measures the machine: matrix products, copies, collectives. What comes out is a cluster file.

Times are the best of several runs: what the machine can do when nothing disturbs it.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import torch

MESSAGES = (1 << 16, 1 << 20, 1 << 23, 1 << 25)
"""Bytes of the collectives that are timed."""


def calibrate(*, seconds: float = 10.0, processes: int = 2) -> dict[str, Any]:
    """The machines here with measured rates, as a request's ``cluster`` field.

    On GPUs the collectives run over all of them with NCCL; without, between ``processes`` on the
    CPU with gloo, so that it runs everywhere.
    """
    on_gpu = torch.cuda.is_available()
    device = torch.device("cuda" if on_gpu else "cpu")
    share = seconds / 4.0
    rates = {name: products(dtype, device, share / 2) for name, dtype in _DTYPES.items()}
    memory = stream(device, share)
    ranks = torch.cuda.device_count() if on_gpu else processes
    measured = "shardwise calibrate"
    name = torch.cuda.get_device_name(0) if on_gpu else platform.processor() or platform.machine()
    row: dict[str, Any] = {
        "id": f"measured-{'gpu' if on_gpu else 'cpu'}",
        "name": name,
        "form": "" if on_gpu else "CPU",
        "memory_gb": total_memory(on_gpu) / 1e9,
        "usable_gib": free_memory(on_gpu) / 2**30 / (1 if on_gpu else ranks),
        "bandwidth_gb_s": memory / 1e9,
        "fp32_tflops": rates["fp32"] / 1e12,
        "bf16_tflops": rates["bf16"] / 1e12,
        "measured_bf16_tflops": rates["bf16"] / 1e12,
        # The peaks above are already what was reached.
        "matmul_fraction": 1.0,
        "source": measured,
        "as_of": date.today().isoformat(),
    }
    out: dict[str, Any] = {
        "accelerator": row,
        "nodes": 1,
        "gpus_per_node": ranks,
        "vcpus": os.cpu_count() or 1,
        "host_memory_gib": total_memory(gpu=False) / 2**30,
    }
    if ranks > 1:
        alpha, bandwidth = fit(collectives(ranks, on_gpu=on_gpu, seconds=share), ranks)
        out["link"] = {
            "id": "measured-link",
            "kind": "nccl" if on_gpu else "gloo",
            "gb_s": bandwidth / 1e9,
            "fraction": 1.0,
            "latency_us": alpha * 1e6,
            "source": measured,
            "as_of": date.today().isoformat(),
        }
    return out


_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def best_of(run: Callable[[], object], seconds: float, device: torch.device) -> float:
    """Shortest time of one run, within about so many seconds."""
    run()
    end = time.perf_counter() + seconds
    best = float("inf")
    while True:
        if device.type == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        run()
        if device.type == "cuda":
            torch.cuda.synchronize()
        now = time.perf_counter()
        best = min(best, now - start)
        if now > end:
            return best


def products(dtype: torch.dtype, device: torch.device, seconds: float) -> float:
    """FLOP/s of the best square matrix product."""
    sizes = (2048, 4096, 8192) if device.type == "cuda" else (256, 512, 1024)
    best = 0.0
    for n in sizes:
        a = torch.randn(n, n, device=device).to(dtype)
        b = torch.randn(n, n, device=device).to(dtype)
        took = best_of(lambda a=a, b=b: a @ b, seconds / len(sizes), device)  # type: ignore[misc]
        best = max(best, 2.0 * n**3 / took)
    return best


def stream(device: torch.device, seconds: float) -> float:
    """Bytes per second that a copy within memory reads and writes."""
    count = (1 << 28) if device.type == "cuda" else (1 << 24)
    source = torch.ones(count, device=device)
    target = torch.empty_like(source)
    took = best_of(lambda: target.copy_(source), seconds, device)
    return 2.0 * source.numel() * source.element_size() / took


def total_memory(gpu: bool) -> float:
    """Bytes of the device, or of the host."""
    if gpu:
        return float(torch.cuda.get_device_properties(0).total_memory)
    return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def free_memory(gpu: bool) -> float:
    """Bytes that are free there now."""
    if gpu:
        return float(torch.cuda.mem_get_info(0)[0])
    return available(Path("/proc/meminfo"))


def available(meminfo: Path) -> float:
    """Bytes of the host that programs can still get: free, and caches that give way."""
    if meminfo.exists():
        for line in meminfo.read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return float(line.split()[1]) * 1024.0
    return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES"))


def collectives(ranks: int, *, on_gpu: bool, seconds: float) -> list[tuple[float, float]]:
    """Bytes and best seconds of an all-reduce over processes started for it."""
    import torch.multiprocessing as mp

    context = mp.get_context("spawn")
    answers: Any = context.SimpleQueue()
    port = _free_port()
    workers = [
        context.Process(target=_rank, args=(rank, ranks, port, on_gpu, seconds, answers))
        for rank in range(ranks)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if any(worker.exitcode for worker in workers):
        raise RuntimeError("the processes of the collectives failed; their errors are above")
    found: list[tuple[float, float]] = answers.get()
    return found


def _free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _rank(rank: int, ranks: int, port: int, on_gpu: bool, seconds: float, answers: Any) -> None:
    import torch.distributed as dist

    dist.init_process_group(
        "nccl" if on_gpu else "gloo",
        init_method=f"tcp://127.0.0.1:{port}",
        rank=rank,
        world_size=ranks,
        timeout=timedelta(seconds=120),
    )
    device = torch.device("cuda", rank) if on_gpu else torch.device("cpu")
    out = []
    for size in MESSAGES:
        tensor = torch.ones(size // 4, device=device)
        # Every rank runs as often as the others, so the count is settled before.
        times = []
        for _ in range(max(3, int(seconds * 5))):
            dist.barrier()
            start = time.perf_counter()
            dist.all_reduce(tensor)
            if on_gpu:
                torch.cuda.synchronize(device)
            times.append(time.perf_counter() - start)
        out.append((float(size), min(times)))
    if rank == 0:
        answers.put(out)
    dist.destroy_process_group()


def fit(times: Sequence[tuple[float, float]], ranks: int) -> tuple[float, float]:
    """Latency and bus bandwidth of an all-reduce: least squares of ``t = alpha + 2 (n-1)/n S / B``.

    Source: Thakur 2005, ring all-reduce. Each message counts by its relative error.

    >>> alpha, bandwidth = fit([(1e6, 1e-3 + 1e6 / 1e9), (1e8, 1e-3 + 1e8 / 1e9)], 2)
    >>> round(alpha, 6), round(bandwidth / 1e9, 6)
    (0.001, 1.0)
    """
    factor = 2.0 * (ranks - 1) / ranks
    xs = [factor * size for size, _ in times]
    ys = [took for _, took in times]
    weights = [1.0 / y**2 for y in ys]
    total = sum(weights)
    x_mean = sum(w * x for w, x in zip(weights, xs, strict=True)) / total
    y_mean = sum(w * y for w, y in zip(weights, ys, strict=True)) / total
    spread = sum(w * (x - x_mean) ** 2 for w, x in zip(weights, xs, strict=True))
    slope = (
        sum(w * (x - x_mean) * (y - y_mean) for w, x, y in zip(weights, xs, ys, strict=True))
        / spread
    )
    # A message cannot take less than nothing; noise on small ones can say so.
    slope = max(slope, 1e-15)
    return max(y_mean - slope * x_mean, 0.0), 1.0 / slope
