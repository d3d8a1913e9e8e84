"""Machines that no catalogue has."""

from __future__ import annotations

PROCESSOR = {
    "accelerator": {
        "id": "host",
        "form": "CPU",
        "memory_gb": 4096.0,
        "bandwidth_gb_s": 100.0,
        "fp32_tflops": 1.0,
        "bf16_tflops": 1.0,
        "source": "none",
        "as_of": "2026-11-30",
    },
    "nodes": 1,
    "gpus_per_node": 1,
}
"""One processor, memory without end: no kernel takes anything for itself."""
