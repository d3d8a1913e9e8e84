"""Architectures that the core has never seen, against a GPU's allocator."""

import pytest

import shardwise

torch = pytest.importorskip("torch")

from test_describe import REGIMES  # noqa: E402
from unseen import PEAKS, UNSEEN  # noqa: E402


@pytest.mark.parametrize("name", UNSEEN)
def test_an_estimate_peaks_where_the_allocator_did(name):
    build, inputs, traced, measured, loss = UNSEEN[name]
    with torch.device("meta"):
        model = build()
    args, kwargs = inputs(traced)
    described = shardwise.describe(model, *args, loss=loss, **kwargs)
    assert described.traced
    for regime, peak in PEAKS[name].items():
        layout = {"sharding": "none", "micro_batch": measured}
        recipe, _ = REGIMES[regime]
        it = shardwise.estimate(
            described, "H100", global_batch=measured, layout=layout, recipe=recipe
        )
        assert it.memory.allocated == pytest.approx(peak, rel=0.025), regime
