"""Trains a small language model with FSDP2 as shardwise planned it.

On two processes of this machine, no GPU needed::

    shardwise calibrate -o cluster.json
    SHARDWISE_CLUSTER=cluster.json torchrun --standalone --nproc-per-node=2 train_fsdp2.py

On GPUs leave the variable out: the machines are detected.
"""

import torch
import torch.distributed as dist
from torch import nn

import shardwise

VOCABULARY, WIDTH, TOKENS, BATCH = 512, 128, 64, 16


class Block(nn.Module):
    """One layer."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.mix = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.feed = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Attention, then the feed-forward network."""
        y = self.norm(x)
        mixed, _ = self.mix(y, y, y, need_weights=False)
        return x + mixed + self.feed(y)


class Model(nn.Module):
    """An embedding, four layers and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(Block() for _ in range(4))
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Logits for each token."""
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def loss_of(logits: torch.Tensor) -> torch.Tensor:
    """Cross-entropy against the tokens themselves: enough to see it fall."""
    target = torch.arange(TOKENS).expand(logits.shape[:2]) % VOCABULARY
    return nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten().to(logits.device))


def main() -> None:
    """Plans, launches, trains a few steps, compares."""
    torch.manual_seed(0)
    model = Model()
    plan = shardwise.prelaunch(
        model,
        torch.zeros(2, TOKENS, dtype=torch.long),
        loss=loss_of,
        tokens=TOKENS,
        global_batch=BATCH,
        recipe={"compute": "fp32"},
        search={"shardings": ["fsdp2"]},
    )
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dist.init_process_group("nccl" if device == "cuda" else "gloo")
    if device == "cuda":
        torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    model.to(device)
    micro_batch, accumulation = BATCH // dist.get_world_size(), 1
    if plan is not None:
        plan.fully_shard(model)
        micro_batch, accumulation = plan.micro_batch, plan.gradient_accumulation
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    watch = plan.watch(model).optimizer(optimizer) if plan is not None else None

    for step in range(5):
        with watch.step() if watch else torch.enable_grad():
            for i in range(accumulation):
                if plan is not None:
                    model.set_requires_gradient_sync(i == accumulation - 1)
                ids = torch.arange(TOKENS, device=device).expand(micro_batch, TOKENS)
                loss = loss_of(model(ids)) / accumulation
                loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        if dist.get_rank() == 0:
            print(f"step {step}: loss {loss.item() * accumulation:.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
