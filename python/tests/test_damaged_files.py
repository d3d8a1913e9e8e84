"""Files of launch tools, damaged at random: each is read or refused in words."""

import pytest

import shardwise
from shardwise import formats

hypothesis = pytest.importorskip("hypothesis")
strategies = pytest.importorskip("hypothesis.strategies")

LAYOUTS = {
    "accelerate": {"sharding": "fsdp2", "micro_batch": 2},
    "deepspeed": {"sharding": "zero3", "offload": ["optimizer_nvme"]},
    "megatron": {"sharding": "distributed_optimizer", "tensor_parallel": 2, "recompute": "full"},
    "skypilot": {"sharding": "fsdp2"},
    "slurm": {"sharding": "fsdp2"},
    "torchrun": {"sharding": "fsdp2"},
    "torchtitan": {"sharding": "fsdp2", "recompute": "selective"},
    "torchtune": {"sharding": "fsdp2", "micro_batch": 2},
    "transformers": {"sharding": "FULL_SHARD", "recompute": "full"},
}
CASES = hypothesis.settings(
    max_examples=300, deadline=None, derandomize=True, database=None, print_blob=False
)
# What the tools' own formats give meaning to, beside plain text.
PIECES = strategies.one_of(
    strategies.text(max_size=8),
    strategies.sampled_from(
        [
            "\n",
            "  ",
            "{",
            "}",
            "[",
            ",",
            ":",
            '"',
            "'",
            "-",
            "--",
            "=",
            "&a",
            "*a",
            "!!python/x",
            "null",
        ]
    ),
    strategies.sampled_from(["0", "-1", "1e999", "nan", "true", "99999999999999999999", "0x10"]),
)
DAMAGE = strategies.lists(
    strategies.tuples(strategies.integers(0, 4000), strategies.integers(0, 12), PIECES),
    min_size=1,
    max_size=4,
)


def written(kind):
    """What the tool would be given for a plain layout."""
    framework = {"deepspeed": "deepspeed", "megatron": "megatron", "torchtitan": "torchtitan"}
    answer = shardwise.estimate(
        "llama-3.1-8b",
        "2x8xH100",
        seq_len=4096,
        global_batch=128,
        layout=LAYOUTS[kind],
        recipe={"framework": framework.get(kind, "torch")},
    )
    return formats.export(answer, kind, layer_classes=["LlamaDecoderLayer"])


def is_answered(text, kind):
    """A file is understood or refused; nothing else is ever raised."""
    for of in (kind, None):
        try:
            found = formats.read(text, of)
        except shardwise.Error:
            continue
        assert isinstance(found, formats.Found)


def test_every_format_is_damaged():
    assert set(LAYOUTS) == set(formats.READERS)


@pytest.mark.parametrize("kind", sorted(LAYOUTS))
def test_a_damaged_file(kind):
    whole = written(kind)

    @CASES
    @hypothesis.given(DAMAGE)
    def damaged(places):
        text = whole
        for at, cut, put in places:
            start = at % (len(text) + 1)
            text = text[:start] + put + text[start + cut :]
        is_answered(text, kind)

    damaged()


@pytest.mark.parametrize("kind", sorted(LAYOUTS))
def test_any_text(kind):
    @CASES
    @hypothesis.given(strategies.text(max_size=200))
    def anything(text):
        is_answered(text, kind)

    anything()
