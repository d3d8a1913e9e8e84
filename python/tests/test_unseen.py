"""Architectures that the core has never seen, against a GPU's allocator."""

import pytest

import shardwise

torch = pytest.importorskip("torch")

from test_describe import REGIMES  # noqa: E402
from unseen import PEAKS, UNSEEN  # noqa: E402
from unseen_more import MORE, MORE_PEAKS, SHARDED_TABLES  # noqa: E402

ALL, ALL_PEAKS = UNSEEN | MORE, PEAKS | MORE_PEAKS


def described(name):
    build, inputs, traced, _, loss = ALL[name]
    with torch.device("meta"):
        model = build()
    args, kwargs = inputs(traced)
    return shardwise.describe(model, *args, loss=loss, **kwargs)


@pytest.mark.parametrize("name", ALL)
def test_an_estimate_peaks_where_the_allocator_did(name):
    it, measured = described(name), ALL[name][3]
    assert it.traced
    for regime, peak in ALL_PEAKS[name].items():
        layout = {"sharding": "none", "micro_batch": measured}
        recipe, _ = REGIMES[regime]
        answer = shardwise.estimate(it, "H100", global_batch=measured, layout=layout, recipe=recipe)
        within = 0.005 if name in MORE else 0.025
        assert answer.memory.allocated == pytest.approx(peak, rel=within), regime


@pytest.mark.parametrize(("compute", "regime"), [("fp32", "fp32"), ("bf16", "mixed")])
def test_units_called_with_data_alone_are_reduced_last(compute, regime):
    batch = ALL["dlrm"][3]
    layout = {"sharding": "fsdp2", "micro_batch": batch}
    it = shardwise.estimate(
        described("dlrm"),
        "8xH100",
        global_batch=8 * batch,
        layout=layout,
        recipe={"compute": compute},
    )
    assert it.memory.allocated == pytest.approx(SHARDED_TABLES[regime], rel=0.005)
