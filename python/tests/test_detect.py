"""What is found of the machine that asks."""

from types import SimpleNamespace

import pytest

import shardwise

torch = pytest.importorskip("torch")

from shardwise.torch import _detect as detecting  # noqa: E402
from shardwise.torch import detect  # noqa: E402

PLAN = {"seq_len": 512, "global_batch": 64}


def test_detection_without_a_gpu_says_so(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(shardwise.Error, match="no GPU here"):
        detect({})


@pytest.fixture
def node(monkeypatch):
    """A node of eight GPUs, as CUDA and nvidia-smi would show it."""

    def show(name, *, link="NV18", free=70):
        names = [f"GPU{i}" for i in range(8)]
        rows = [
            "\t".join([mine, *("X" if other == mine else link(mine, other) for other in names)])
            for mine in names
        ]
        table = "\n".join(["\t" + "\t".join(names), *rows])
        properties = SimpleNamespace(name=name)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (free * 2**30, 79 * 2**30))
        monkeypatch.setattr(detecting, "topology", lambda: table)
        monkeypatch.setattr(detecting, "memory_table", lambda: "71680\n" * 7 + "61440\n")
        return shardwise.Cluster.detect({"WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8"})

    return show


def test_detection_of_a_node_of_gpus(node):
    found = node("NVIDIA H100 80GB HBM3", link=lambda *_: "NV18")
    plan = shardwise.plan("gpt2", found, **PLAN)
    cluster = plan.best.cluster
    assert (cluster.accelerator, cluster.nodes, cluster.gpus_per_node) == ("h100-sxm", 2, 8)
    assert cluster.within_domain.link.startswith("nvlink")
    assert cluster.domain == 8
    # The fullest device counts.
    assert plan.best.fit.capacity == 60 * 2**30


def test_detection_sees_what_nvlink_joins(node):
    def bridges(mine, other):
        return "NV12" if int(mine[3:]) // 2 == int(other[3:]) // 2 else "NODE"

    found = node("NVIDIA A100 80GB PCIe", link=bridges)
    assert shardwise.plan("gpt2", found, **PLAN).best.cluster.domain == 2
    for name in ("NVIDIA A100 80GB PCIe", "NVIDIA H100 80GB HBM3"):
        found = node(name, link=lambda *_: "PHB")
        cluster = shardwise.plan("gpt2", found, **PLAN).best.cluster
        assert cluster.within_domain.link.startswith("pcie"), name


def test_an_unknown_device_is_a_fault(node):
    with pytest.raises(shardwise.Error, match="NVIDIA X1") as caught:
        node("NVIDIA X1", link=lambda *_: "NV18")
    assert caught.value.field == "cluster.accelerator"


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("NVIDIA A100-SXM4-80GB", "a100-sxm-80"),
        ("NVIDIA A100-PCIE-40GB", "a100-pcie-40"),
        ("NVIDIA H100 NVL", "h100-nvl"),
        ("NVIDIA H200", "h200-sxm"),
        ("NVIDIA B200", "b200"),
        ("NVIDIA L40S", "l40s"),
        ("NVIDIA A10G", "a10g"),
        ("Tesla T4", "t4"),
        ("Tesla V100-SXM2-16GB", "v100-sxm2-16"),
        ("NVIDIA RTX A6000", "rtx-a6000"),
        ("NVIDIA GeForce RTX 4090", "rtx-4090"),
        ("AMD Instinct MI300X", "mi300x"),
    ],
)
def test_devices_are_found_in_the_catalogue(name, row):
    assert detecting.accelerator(name) == row
