"""Architectures that no other test knows, and what a GPU's allocator saw of a step of each.

The peaks are those of real CUDA PyTorch 2.15 on a runtime that computes nothing (see
docs/memory.md): AdamW's second step on one GPU, bytes asked of the allocator.
"""

import dataclasses
from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - as everyone calls it


class Attention(nn.Module):
    def __init__(self, width, heads, context=None, bias=True, drop=0.0):
        super().__init__()
        self.heads, self.drop = heads, drop
        self.q = nn.Linear(width, width, bias=bias)
        self.kv = nn.Linear(context or width, 2 * width, bias=bias)
        self.out = nn.Linear(width, width)

    def forward(self, x, context=None, mask=None, causal=False):
        context = x if context is None else context
        b, s, w = x.shape
        q = self.q(x).view(b, s, self.heads, -1).transpose(1, 2)
        k, v = (
            t.reshape(b, context.shape[1], self.heads, -1).transpose(1, 2)
            for t in self.kv(context).chunk(2, -1)
        )
        y = F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, is_causal=causal, dropout_p=self.drop if self.training else 0.0
        )
        return self.out(y.transpose(1, 2).reshape(b, s, w))


class MLP(nn.Sequential):
    def __init__(self, width, drop=0.0):
        super().__init__(
            nn.Linear(width, 4 * width),
            nn.GELU(),
            nn.Dropout(drop),
            nn.Linear(4 * width, width),
            nn.Dropout(drop),
        )


class ViTBlock(nn.Module):
    def __init__(self, width, heads, drop):
        super().__init__()
        self.n1, self.attn = nn.LayerNorm(width), Attention(width, heads, drop=drop)
        self.n2, self.mlp = nn.LayerNorm(width), MLP(width, drop)
        self.drop = nn.Dropout(drop)

    def forward(self, x):
        x = x + self.drop(self.attn(self.n1(x)))
        return x + self.mlp(self.n2(x))


class ViT(nn.Module):
    def __init__(self, width=384, depth=6, heads=6, drop=0.1):
        super().__init__()
        self.patch = nn.Conv2d(3, width, 16, 16)
        self.cls = nn.Parameter(torch.zeros(1, 1, width))
        self.pos = nn.Parameter(torch.zeros(1, 197, width))
        self.drop = nn.Dropout(drop)
        self.blocks = nn.ModuleList(ViTBlock(width, heads, drop) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(x.shape[0], -1, -1), x], 1) + self.pos
        x = self.drop(x)
        for b in self.blocks:
            x = b(x)
        return self.head(self.norm(x)[:, 0])


class GRUNet(nn.Module):
    def __init__(self, kind=nn.GRU, vocab=2000, width=256, layers=2):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.rnn = kind(width, width, layers, batch_first=True)
        self.head = nn.Linear(width, vocab)

    def forward(self, ids):
        return self.head(self.rnn(self.embed(ids))[0])


class DLRM(nn.Module):
    def __init__(self, tables=8, rows=50_000, width=64, dense=13):
        super().__init__()
        self.bags = nn.ModuleList(
            nn.EmbeddingBag(rows, width, mode="sum", sparse=False) for _ in range(tables)
        )
        self.bottom = nn.Sequential(
            nn.Linear(dense, 512),
            nn.ReLU(),
            nn.Linear(512, 256),
            nn.ReLU(),
            nn.Linear(256, width),
            nn.ReLU(),
        )
        n = tables + 1
        self.top = nn.Sequential(
            nn.Linear(width + n * (n - 1) // 2, 1024),
            nn.ReLU(),
            nn.Linear(1024, 512),
            nn.ReLU(),
            nn.Linear(512, 1),
        )
        self.register_buffer("pairs", torch.tril_indices(n, n, -1), persistent=False)

    def forward(self, dense, sparse):
        d = self.bottom(dense)
        e = [bag(sparse[:, i]) for i, bag in enumerate(self.bags)]
        t = torch.stack([d, *e], 1)
        z = torch.bmm(t, t.transpose(1, 2))
        return self.top(torch.cat([d, z[:, self.pairs[0], self.pairs[1]]], 1)).squeeze(-1)


class MoELayer(nn.Module):
    """Every expert takes its best tokens."""

    def __init__(self, w=256, experts=8, k=2):
        super().__init__()
        self.norm = nn.LayerNorm(w)
        self.attn = Attention(w, 4)
        self.n2 = nn.LayerNorm(w)
        self.router = nn.Linear(w, experts, bias=False)
        self.w1 = nn.Parameter(torch.zeros(experts, w, 4 * w))
        self.w2 = nn.Parameter(torch.zeros(experts, 4 * w, w))
        self.k, self.experts = k, experts

    def forward(self, x):
        x = x + self.attn(self.norm(x), causal=True)
        y = self.n2(x).flatten(0, 1)
        p = self.router(y).softmax(-1)
        top, ids = p.topk(self.k, -1)
        top = top / top.sum(-1, keepdim=True)
        gates = torch.zeros_like(p).scatter(1, ids, top.to(p.dtype))
        capacity = y.shape[0] * self.k // self.experts
        g, pick = gates.t().topk(capacity, -1)
        h = y[pick.flatten()].view(self.experts, capacity, -1)
        h = torch.bmm(F.silu(torch.bmm(h, self.w1)), self.w2) * g.unsqueeze(-1)
        out = torch.zeros_like(y).index_add(0, pick.flatten(), h.flatten(0, 1).to(y.dtype))
        return x + out.view_as(x)


class MoE(nn.Module):
    def __init__(self, w=256, layers=4, vocab=4000):
        super().__init__()
        self.embed = nn.Embedding(vocab, w)
        self.layers = nn.ModuleList(MoELayer(w) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(w), nn.Linear(w, vocab, bias=False)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


class GNNLayer(nn.Module):
    def __init__(self, w):
        super().__init__()
        self.msg = nn.Sequential(nn.Linear(2 * w + 16, w), nn.ReLU(), nn.Linear(w, w))
        self.upd = nn.GRUCell(w, w)

    def forward(self, x, src, dst, e):
        m = self.msg(torch.cat([x[src], x[dst], e], -1))
        agg = torch.zeros_like(x).index_add(0, dst, m.to(x.dtype))
        deg = (
            torch.zeros(x.shape[0], 1, dtype=x.dtype, device=x.device)
            .scatter_add(0, dst[:, None], torch.ones_like(dst[:, None], dtype=x.dtype))
            .clamp(min=1)
        )
        return self.upd(agg / deg, x)


class GNN(nn.Module):
    """Batch of graphs of 100 nodes and 600 edges, flattened."""

    def __init__(self, w=128, layers=4):
        super().__init__()
        self.inp = nn.Linear(32, w)
        self.layers = nn.ModuleList(GNNLayer(w) for _ in range(layers))
        self.out = nn.Linear(w, 10)

    def forward(self, batch):
        x, edges, e = batch["x"], batch["edges"], batch["e"]
        b, n, _ = x.shape
        flat = (
            (edges + torch.arange(b, device=x.device)[:, None, None] * n)
            .permute(1, 0, 2)
            .reshape(2, -1)
        )
        h = self.inp(x.flatten(0, 1))
        for layer in self.layers:
            h = layer(h, flat[0], flat[1], e.flatten(0, 1))
        return self.out(h.view(b, n, -1).mean(1))


@dataclasses.dataclass
class VAEOutput:
    recon: torch.Tensor
    mu: torch.Tensor
    logvar: torch.Tensor


class VAE(nn.Module):
    def __init__(self, w=64, z=128):
        super().__init__()
        self.enc = nn.Sequential(
            nn.Conv2d(3, w, 4, 2, 1),
            nn.LeakyReLU(),
            nn.Conv2d(w, 2 * w, 4, 2, 1),
            nn.BatchNorm2d(2 * w),
            nn.LeakyReLU(),
            nn.Conv2d(2 * w, 4 * w, 4, 2, 1),
            nn.BatchNorm2d(4 * w),
            nn.LeakyReLU(),
            nn.Flatten(),
        )
        self.mu, self.logvar = nn.Linear(4 * w * 64, z), nn.Linear(4 * w * 64, z)
        self.up = nn.Linear(z, 4 * w * 64)
        self.dec = nn.Sequential(
            nn.ConvTranspose2d(4 * w, 2 * w, 4, 2, 1),
            nn.BatchNorm2d(2 * w),
            nn.ReLU(),
            nn.ConvTranspose2d(2 * w, w, 4, 2, 1),
            nn.ReLU(),
            nn.ConvTranspose2d(w, 3, 4, 2, 1),
            nn.Sigmoid(),
        )

    def forward(self, x):
        h = self.enc(x)
        mu, logvar = self.mu(h), self.logvar(h)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
        d = self.up(z)
        return VAEOutput(self.dec(d.view(d.shape[0], -1, 8, 8)), mu, logvar)


def vae_loss(out):
    kl = -0.5 * (1 + out.logvar - out.mu**2 - out.logvar.exp()).sum()
    return F.mse_loss(out.recon, torch.zeros_like(out.recon), reduction="sum") + kl


class GPT(nn.Module):
    """GPT-2 as nanoGPT writes it, loss inside."""

    class Block(nn.Module):
        def __init__(self, w, h, drop):
            super().__init__()
            self.l1, self.l2 = nn.LayerNorm(w), nn.LayerNorm(w)
            self.qkv, self.proj = nn.Linear(w, 3 * w), nn.Linear(w, w)
            self.mlp = MLP(w, drop)
            self.h, self.drop = h, drop
            self.rd = nn.Dropout(drop)

        def forward(self, x):
            b, s, w = x.shape
            q, k, v = (
                t.view(b, s, self.h, -1).transpose(1, 2) for t in self.qkv(self.l1(x)).split(w, 2)
            )
            y = F.scaled_dot_product_attention(
                q, k, v, is_causal=True, dropout_p=self.drop if self.training else 0
            )
            x = x + self.rd(self.proj(y.transpose(1, 2).contiguous().view(b, s, w)))
            return x + self.mlp(self.l2(x))

    def __init__(self, w=384, layers=6, vocab=16000, s=256, drop=0.2):
        super().__init__()
        self.wte, self.wpe, self.drop = nn.Embedding(vocab, w), nn.Embedding(s, w), nn.Dropout(drop)
        self.h = nn.ModuleList(self.Block(w, 6, drop) for _ in range(layers))
        self.ln, self.head = nn.LayerNorm(w), nn.Linear(w, vocab, bias=False)
        self.wte.weight = self.head.weight

    def forward(self, ids, targets=None):
        x = self.drop(self.wte(ids) + self.wpe(torch.arange(ids.shape[1], device=ids.device)))
        for b in self.h:
            x = b(x)
        logits = self.head(self.ln(x))
        loss = (
            None
            if targets is None
            else F.cross_entropy(
                logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1
            )
        )
        return logits, loss


class Scan(nn.Module):
    """A selective state space whose scan is a sum in logarithms; its products are einsums."""

    def __init__(self, w, n=16):
        super().__init__()
        self.d, self.n = 2 * w, n
        self.norm = nn.RMSNorm(w)
        self.inp = nn.Linear(w, 2 * self.d, bias=False)
        self.conv = nn.Conv1d(self.d, self.d, 4, groups=self.d, padding=3)
        self.x = nn.Linear(self.d, 48 + 2 * n, bias=False)
        self.dt = nn.Linear(48, self.d)
        self.a = nn.Parameter(torch.zeros(self.d, n))
        self.skip = nn.Parameter(torch.ones(self.d))
        self.out = nn.Linear(self.d, w, bias=False)

    def forward(self, x):
        y, z = self.inp(self.norm(x)).chunk(2, -1)
        y = F.silu(self.conv(y.transpose(1, 2))[..., : y.shape[1]]).transpose(1, 2)
        dt, b, c = self.x(y).split([48, self.n, self.n], -1)
        dt, a = F.softplus(self.dt(dt)), -torch.exp(self.a)
        decay = torch.einsum("bld,dn->bldn", dt, a)
        step = torch.einsum("bld,bln,bld->bldn", dt, b, y)
        s = decay.cumsum(1).exp()
        h = (step / (s + 1e-12)).cumsum(1) * s
        o = torch.einsum("bldn,bln->bld", h, c) + self.skip * y
        return x + self.out(o * F.silu(z))


class StateSpace(nn.Module):
    def __init__(self, w=512, depth=8, vocab=16000):
        super().__init__()
        self.emb = nn.Embedding(vocab, w)
        self.layers = nn.ModuleList(Scan(w) for _ in range(depth))
        self.norm = nn.RMSNorm(w)
        self.head = nn.Linear(w, vocab, bias=False)
        self.head.weight = self.emb.weight

    def forward(self, i):
        x = self.emb(i)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def next_token(y):
    target = torch.zeros(y.shape[0] * (y.shape[1] - 1), dtype=torch.long, device=y.device)
    return F.cross_entropy(y[:, :-1].flatten(0, 1).float(), target)


class Voxels(nn.Sequential):
    def __init__(self, i, o):
        super().__init__()
        for inputs in (i, o):
            self.append(nn.Conv3d(inputs, o, 3, padding=1))
            self.append(nn.InstanceNorm3d(o, affine=True))
            self.append(nn.LeakyReLU(0.01, inplace=True))


class UNet3D(nn.Module):
    """On volumes: a convolution's columns of one sample are larger than what it keeps."""

    def __init__(self, w=(32, 64, 128, 256), classes=4):
        super().__init__()
        self.enc = nn.ModuleList(Voxels(a, b) for a, b in zip((1, *w), w, strict=False))
        self.up = nn.ModuleList(nn.ConvTranspose3d(b, a, 2, 2) for a, b in pairwise(w))
        self.dec = nn.ModuleList(Voxels(2 * a, a) for a in w[:-1])
        self.head = nn.Conv3d(w[0], classes, 1)

    def forward(self, x):
        skips = []
        for i, e in enumerate(self.enc):
            x = e(x)
            if i + 1 < len(self.enc):
                skips.append(x)
                x = F.max_pool3d(x, 2)
        for u, d in zip(reversed(self.up), reversed(self.dec), strict=True):
            x = d(torch.cat([u(x), skips.pop()], 1))
        return self.head(x)


def overlap(y):
    p = y.softmax(1)
    t = torch.zeros_like(p)
    inter = (p * t).sum((2, 3, 4))
    dice = 1 - ((2 * inter + 1) / (p.sum((2, 3, 4)) + t.sum((2, 3, 4)) + 1)).mean()
    target = torch.zeros(y.shape[0], *y.shape[2:], dtype=torch.long, device=y.device)
    return dice + F.cross_entropy(y, target)


def ids(b, s, n=2):
    return torch.zeros(b, s, dtype=torch.long)


def image(b, c=3, s=224):
    return torch.zeros(b, c, s, s)


# Name: module, inputs of a batch, the batch that is traced, the batch that was measured, the loss.
UNSEEN = {
    "gru": (GRUNet, lambda b: ((ids(b, 64),), {}), 2, 32, None),
    "dlrm": (
        DLRM,
        lambda b: ((torch.zeros(b, 13), torch.zeros(b, 8, 4, dtype=torch.long)), {}),
        16,
        4096,
        lambda y: F.binary_cross_entropy_with_logits(y, torch.ones_like(y)),
    ),
    "moe": (MoE, lambda b: ((ids(b, 128),), {}), 2, 32, None),
    "gnn": (
        GNN,
        lambda b: (
            (
                {
                    "x": torch.zeros(b, 100, 32),
                    "edges": torch.zeros(b, 2, 600, dtype=torch.long),
                    "e": torch.zeros(b, 600, 16),
                },
            ),
            {},
        ),
        2,
        64,
        None,
    ),
    "vae": (VAE, lambda b: ((image(b, 3, 64),), {}), 2, 64, vae_loss),
    "vit": (ViT, lambda b: ((image(b),), {}), 2, 32, None),
    "gpt": (GPT, lambda b: ((ids(b, 256), ids(b, 256)), {}), 2, 16, lambda o: o[1]),
    "state space": (StateSpace, lambda b: ((ids(b, 512),), {}), 1, 4, next_token),
    "unet3d": (UNet3D, lambda b: ((torch.zeros(b, 1, 64, 64, 64),), {}), 1, 4, overlap),
}

PEAKS = {
    "vit": {"fp32": 1270143112, "autocast": 898390296, "bf16": 696116436},
    "gru": {"fp32": 148901128, "bf16": 91235972},
    "dlrm": {"fp32": 528935764, "autocast": 528935764, "bf16": 264992458},
    "moe": {"fp32": 925276232, "autocast": 681498728, "bf16": 479972452},
    "gnn": {"fp32": 552582324, "autocast": 294453376, "bf16": 287554880},
    "vae": {"fp32": 260786768, "autocast": 211313226, "bf16": 147172660},
    "gpt": {"fp32": 1927096328, "autocast": 1431087260, "bf16": 993187988},
    "state space": {"fp32": 8150364168, "autocast": 6312800264, "bf16": 4188034056},
    "unet3d": {"fp32": 3635933256, "autocast": 1905802952, "bf16": 1856785444},
}
"""Bytes by number formats. (A recurrent layer under autocast runs in cuDNN, which was not there.)"""
