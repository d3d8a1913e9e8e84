"""What is read from a model, and how near the estimate of a traced one comes to torch's tracker.

The tracker sees tensors, not what a GPU's kernels take for themselves: the machines it is held
against are processors. (``test_unseen`` compares with a GPU's allocator.)
"""

import dataclasses
import json

import pytest

import shardwise

torch = pytest.importorskip("torch")

from archs import ARCHITECTURES, Decoder, Recurrent, example  # noqa: E402
from machines import PROCESSOR  # noqa: E402

from shardwise.torch._dialect import cuda_dialect  # noqa: E402


def square(output):
    """A loss whose gradient is no expanded number, of which a GPU's products make a copy."""
    return output.square().sum()


def tracked_peak(
    build,
    kind,
    batch,
    *,
    bf16=False,
    autocast=False,
    recompute=False,
    loss=None,
):
    """Peak bytes of the second of two steps, as torch's memory tracker counts them.

    The step holds its batch, and the output until the step ends, as scripts do.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.distributed._tools.mem_tracker import MemTracker

    with FakeTensorMode(), cuda_dialect():
        torch.set_default_dtype(torch.bfloat16 if bf16 else torch.float32)
        model = build()
        x = example(kind, batch)
        torch.set_default_dtype(torch.float32)
        if recompute:
            from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
                apply_activation_checkpointing,
            )

            units = {id(m) for m in shardwise.torch.find_units(model).values()}
            apply_activation_checkpointing(model, check_fn=lambda m: id(m) in units)
        optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
        tracker = MemTracker()
        tracker.track_external(model, optimizer, x)
        with tracker:
            for step in range(2):
                with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
                    output = model(x)
                    value = (loss or square)(output)
                value.backward()
                optimizer.step()
                optimizer.zero_grad()
                value = output = None
                if step == 0:
                    tracker.reset_mod_stats()
        peak = tracker.get_tracker_snapshot("peak")
        return sum(held["Total"] for held in peak.values())


@pytest.fixture(scope="module")
def described():
    made = {}

    def of(name):
        if name not in made:
            build, kind = ARCHITECTURES[name]
            with torch.device("meta"):
                model = build()
            tokens = 256 if kind == "ids" else 1
            made[name] = shardwise.describe(model, example(kind, 4), tokens=tokens, loss=square)
        return made[name]

    return of


REGIMES = {
    "fp32": ({"compute": "fp32"}, {}),
    "autocast": ({"compute": "bf16"}, {"autocast": True}),
    "bf16": ({"compute": "bf16", "params_dtype": "bf16"}, {"bf16": True}),
}


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_traced_model_peaks_where_torch_says(described, name, regime):
    # Far from the two batches that were traced.
    batch = 48
    recipe, mode = REGIMES[regime]
    layout = {"sharding": "none", "micro_batch": batch}
    it = shardwise.estimate(
        described(name), PROCESSOR, global_batch=batch, layout=layout, recipe=recipe
    )
    build, kind = ARCHITECTURES[name]
    assert it.memory.allocated == pytest.approx(tracked_peak(build, kind, batch, **mode), rel=0.01)


@pytest.mark.parametrize("name", ["unet", "convnet", "decoder", "mixer", "dilated"])
def test_a_traced_model_with_recomputation(described, name):
    layout = {"sharding": "none", "micro_batch": 32, "recompute": "full"}
    it = shardwise.estimate(
        described(name), PROCESSOR, global_batch=32, layout=layout, recipe={"compute": "fp32"}
    )
    build, kind = ARCHITECTURES[name]
    peak = tracked_peak(build, kind, 32, recompute=True)
    assert it.memory.allocated == pytest.approx(peak, rel=0.01)


def test_counts_are_the_modules_own(described):
    for name, (build, _) in ARCHITECTURES.items():
        model = build()
        it = described(name)
        total = sum(p.numel() for p in model.parameters())
        assert it.parameters == it.trainable == total
        assert shardwise.describe_model(it).parameters.total == total
    assert described("decoder").tied == (("embed.weight", "head.weight"),)


def test_flops_are_torchs(described):
    from torch.utils.flop_counter import FlopCounterMode

    build, kind = ARCHITECTURES["convnet"]
    with torch.device("meta"):
        model = build()
        x = example(kind, 2).to("meta")
    with FlopCounterMode(display=False) as counter:
        model(x).sum().backward()
    layout = {"sharding": "none", "micro_batch": 2}
    it = shardwise.estimate(described("convnet"), "H100", global_batch=2, layout=layout)
    assert it.step.model_flops == pytest.approx(counter.get_total_flops(), rel=0.06)


def test_sharding_a_traced_model_needs_less(described):
    needs = []
    for sharding in ("ddp", "fsdp2"):
        layout = {"sharding": sharding, "micro_batch": 1}
        it = shardwise.estimate(described("plain"), "8xH100", global_batch=8, layout=layout)
        needs.append(it.memory.allocated)
    assert needs[1] < needs[0]


def test_frozen_parameters_have_no_states(described):
    model = Decoder()
    for p in model.layers.parameters():
        p.requires_grad_(False)
    frozen = shardwise.describe(model, example("ids", 2), tokens=256)
    whole = described("decoder")
    assert frozen.trainable < frozen.parameters == whole.parameters
    states = []
    for it in (frozen, whole):
        phases = shardwise.estimate(it, "H100", global_batch=1).memory.phases
        step = next(p for p in phases if p.name == "optimizer step")
        terms = {t.name: t.amount for t in step.allocated.terms}
        states.append(terms["optimizer states"])
    assert states[0] == pytest.approx(states[1] * frozen.trainable / frozen.parameters)


def test_a_loss_of_ones_own_counts(described):
    def loss(logits):
        target = torch.zeros(logits.shape[:2], dtype=torch.long).flatten()
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), target)

    layout = {"sharding": "none", "micro_batch": 16}
    asked = {"global_batch": 16, "layout": layout, "recipe": {"compute": "fp32"}}
    build, kind = ARCHITECTURES["decoder"]
    own = shardwise.describe(build(), example(kind, 2), tokens=256, loss=loss)
    needs = shardwise.estimate(own, PROCESSOR, **asked).memory.allocated
    assert needs == pytest.approx(tracked_peak(build, kind, 16, loss=loss), rel=0.01)
    # The mean of the logits alone needs none of the loss's tensors.
    mean = shardwise.describe(build(), example(kind, 2), tokens=256, loss=torch.mean)
    assert needs > 1.2 * shardwise.estimate(mean, PROCESSOR, **asked).memory.allocated


def test_units_are_the_repeated_blocks():
    nn = torch.nn

    def block():
        return nn.Sequential(nn.Linear(4, 4), nn.ReLU())

    # Sequences of plain layers, in a list or in one more sequence; stages are lists of their blocks.
    flat = nn.ModuleDict({"blocks": nn.ModuleList(block() for _ in range(3))})
    assert list(shardwise.torch.find_units(flat)) == ["blocks.0", "blocks.1", "blocks.2"]
    assert list(shardwise.torch.find_units(nn.Sequential(block(), block()))) == ["0", "1"]
    stages = nn.Sequential(nn.Sequential(block(), block()), nn.Sequential(block(), block()))
    assert list(shardwise.torch.find_units(stages)) == ["0.0", "0.1", "1.0", "1.1"]


def test_lists_that_nobody_calls_are_no_units():
    # FSDP refuses a list as a unit: each table is one.
    class Tables(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.bags = torch.nn.ModuleList(torch.nn.EmbeddingBag(10, 4) for _ in range(2))
            self.top = torch.nn.Sequential(torch.nn.Linear(4, 1))

    assert list(shardwise.torch.find_units(Tables())) == ["bags.0", "bags.1", "top"]


class Chooses(torch.nn.Module):
    """Its course hangs on what it is given."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, x):
        return self.linear(x) if x.sum() > 0 else x


class Selects(Chooses):
    def forward(self, x):
        return self.linear(x[x[:, 0] > 0])


@pytest.mark.parametrize("kind", [Chooses, Selects])
def test_a_module_that_reads_values_is_named(kind):
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), kind())
    with pytest.raises(shardwise.Error, match=f"{kind.__name__} reads the values") as caught:
        shardwise.describe(model, torch.zeros(2, 8))
    assert "torch.where" in caught.value.allowed


class Skips(Chooses):
    """Asks of values what most modules that ask do."""

    def forward(self, x):
        y = x if torch.rand([]) < 0.1 else self.linear(x)
        return torch.distributions.Normal(y, y.exp()).rsample()


def test_what_most_modules_ask_of_values_is_assumed():
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), Skips())
    parts = shardwise.describe(model, torch.zeros(2, 8)).spec["parts"]
    # Nothing is skipped: both products are there.
    assert (
        sum(len(part["products"]) * part["products"][0][3] for part in parts if part["products"])
        == 2
    )


class Cached(torch.nn.Module):
    """Keeps what it made and takes it the next time."""

    def __init__(self):
        super().__init__()
        self.linear, self.made = torch.nn.Linear(8, 8), None

    def forward(self, x):
        if self.made is None:
            self.made = self.linear(x)
        return x * self.made


def test_a_unit_that_cannot_run_again_keeps_what_it_keeps():
    model = torch.nn.Sequential(Cached(), Cached())
    it = shardwise.describe(model, torch.zeros(2, 8), units=[Cached])
    for part in it.spec["parts"]:
        regime = part["regimes"]["fp32"]
        assert regime["recomputed"] == regime["whole"]


def test_sparse_gradients_are_refused():
    model = torch.nn.EmbeddingBag(10, 4, sparse=True)
    with pytest.raises(shardwise.Error, match="sparse=False"):
        shardwise.describe(model, torch.zeros(2, 3, dtype=torch.long))


def test_a_compiled_module_is_described_as_it_is_inside():
    build, kind = ARCHITECTURES["plain"]
    model = build()
    compiled = shardwise.describe(torch.compile(model), example(kind, 2))
    assert compiled == shardwise.describe(model, example(kind, 2))


def test_a_module_without_inputs_or_blocks_tells_what_to_do():
    with pytest.raises(shardwise.Error, match="example inputs"):
        shardwise.describe(Decoder())
    it = shardwise.describe(Recurrent(), example("series", 2))
    assert it.traced


def test_adapters_on_a_traced_model_are_traced_not_asked_for(described):
    with pytest.raises(shardwise.Error) as caught:
        shardwise.plan(described("plain"), "H100", global_batch=8, recipe={"method": "lora"})
    assert caught.value.field == "recipe.method"


@pytest.fixture(scope="module")
def tiny():
    transformers = pytest.importorskip("transformers")
    return transformers.LlamaConfig(
        hidden_size=128,
        intermediate_size=352,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=1000,
    )


def test_a_transformers_model_is_read_from_its_config(tiny):
    transformers = pytest.importorskip("transformers")
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(tiny).to(torch.bfloat16)
    it = shardwise.describe(model)
    assert not it.traced
    assert it.recipe == {"params_dtype": "bf16"}
    assert it.units == ("model.layers.0", "model.layers.1", "model.layers.2")
    assert shardwise.describe_model(it).parameters.total == it.parameters
    assert shardwise.describe(tiny).parameters == it.parameters
    both = [shardwise.plan(m, "H100", seq_len=64, global_batch=8).layout for m in (model, tiny)]
    assert both[0].sharding == both[1].sharding


def test_a_changed_transformers_model_is_not_taken_for_its_config(tiny):
    transformers = pytest.importorskip("transformers")
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(tiny)
        model.extra = torch.nn.Linear(8, 8)
    with pytest.raises(shardwise.Error, match="example inputs"):
        shardwise.describe(model)


@pytest.mark.parametrize("dora", [False, True])
def test_adapters_are_read_from_peft(tiny, dora):
    peft = pytest.importorskip("peft")
    transformers = pytest.importorskip("transformers")
    base = transformers.LlamaForCausalLM(tiny)
    lora = peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"], use_dora=dora)
    it = shardwise.describe(peft.get_peft_model(base, lora))
    assert it.recipe["method"] == "lora"
    assert it.recipe["lora"]["targets"] == ["q_proj", "v_proj"]
    assert it.recipe["lora"]["kind"] == ("dora" if dora else "lora")
    assert it.trainable < it.parameters
    answer = shardwise.estimate(it, "H100", seq_len=64)
    step = next(p for p in answer.memory.phases if p.name == "optimizer step")
    terms = {t.name: t.amount for t in step.allocated.terms}
    assert terms["optimizer states"] == pytest.approx(8 * it.trainable, rel=0.02)


def test_a_description_is_plain_data(described):
    it = described("mixer")
    assert dataclasses.is_dataclass(it)
    json.dumps(it.spec)
    assert "FSDP units" in str(it)
