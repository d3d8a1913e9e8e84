"""More architectures that no other test knows: points, rays, capsules, speech, contrast, flows.

The peaks are measured as those of ``unseen``.
"""

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - as everyone calls it
from unseen import image


class SetAbstraction(nn.Module):
    """Each centre gathers its nearest points and keeps the largest of what they say."""

    def __init__(self, width, out, centres, near):
        super().__init__()
        self.centres, self.near = centres, near
        self.mlp = nn.Sequential(
            nn.Linear(width + 3, out),
            nn.ReLU(),
            nn.Linear(out, out),
            nn.ReLU(),
            nn.Linear(out, out),
        )
        self.norm = nn.LayerNorm(out)

    def forward(self, xyz, f):
        b, k = xyz.shape[0], self.near
        centre = xyz[:, :: xyz.shape[1] // self.centres][:, : self.centres]
        with torch.no_grad():
            nearest = torch.cdist(centre, xyz).topk(k, largest=False)[1]
        flat = nearest.flatten(1)[..., None]
        near = xyz.gather(1, flat.expand(-1, -1, 3)).view(b, self.centres, k, 3)
        features = f.gather(1, flat.expand(-1, -1, f.shape[-1])).view(b, self.centres, k, -1)
        seen = self.mlp(torch.cat([near - centre[:, :, None], features], -1))
        return centre, self.norm(seen.amax(2))


class PointNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(3, 64)
        self.layers = nn.ModuleList(
            [
                SetAbstraction(64, 128, 512, 32),
                SetAbstraction(128, 256, 128, 32),
                SetAbstraction(256, 512, 32, 16),
            ]
        )
        self.head = nn.Sequential(
            nn.Linear(512, 256), nn.ReLU(), nn.Dropout(0.4), nn.Linear(256, 40)
        )

    def forward(self, xyz):
        f = self.inp(xyz)
        for layer in self.layers:
            xyz, f = layer(xyz, f)
        return self.head(f.amax(1))


class Rays(nn.Module):
    """A radiance field along rays, its colours weighted by what light comes through."""

    def __init__(self, width=256, waves=10, samples=64):
        super().__init__()
        size = 6 * waves + 3
        self.waves, self.samples = waves, samples
        self.low = nn.ModuleList(nn.Linear(width if i else size, width) for i in range(4))
        self.high = nn.ModuleList(nn.Linear(width + (0 if i else size), width) for i in range(4))
        self.density, self.feature = nn.Linear(width, 1), nn.Linear(width, width)
        self.colour = nn.Sequential(
            nn.Linear(width + 3, width // 2), nn.ReLU(), nn.Linear(width // 2, 3), nn.Sigmoid()
        )

    def forward(self, rays):
        like = {"device": rays.device, "dtype": rays.dtype}
        origin, way = rays[:, None, :3], rays[:, None, 3:]
        x = origin + way * torch.linspace(2, 6, self.samples, **like)[None, :, None]
        phase = (x[..., None] * 2.0 ** torch.arange(self.waves, **like)).flatten(-2)
        h = encoded = torch.cat([x, phase.sin(), phase.cos()], -1)
        for layer in self.low:
            h = F.relu(layer(h))
        h = torch.cat([h, encoded], -1)
        for layer in self.high:
            h = F.relu(layer(h))
        density = F.relu(self.density(h))[..., 0]
        seen = torch.cat([self.feature(h), way.expand(-1, self.samples, -1)], -1)
        alpha = 1 - torch.exp(-density * 0.06)
        clear = torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-10], 1)
        light = torch.cumprod(clear, 1)[:, :-1]
        return ((alpha * light)[..., None] * self.colour(seen)).sum(1)


class Capsules(nn.Module):
    """Sums over a dimension in the middle leave partial sums as large as their input."""

    def __init__(self, inner=1152, size=8, count=10, out=16):
        super().__init__()
        self.size = size
        self.c1, self.c2 = nn.Conv2d(1, 256, 9), nn.Conv2d(256, 256, 9, 2)
        self.weight = nn.Parameter(torch.zeros(count, inner, size, out))
        self.dec = nn.Sequential(
            nn.Linear(count * out, 512), nn.ReLU(), nn.Linear(512, 784), nn.Sigmoid()
        )

    @staticmethod
    def squash(x):
        n = (x**2).sum(-1, keepdim=True)
        return n / (1 + n) * x / (n + 1e-8).sqrt()

    def forward(self, x):
        u = self.squash(self.c2(F.relu(self.c1(x))).view(x.shape[0], -1, self.size))
        votes = torch.einsum("bid,nidk->bnik", u, self.weight.to(u.dtype))
        b = torch.zeros(votes.shape[:3], device=x.device, dtype=votes.dtype)
        for i in range(3):
            v = self.squash((b.softmax(1)[..., None] * votes).sum(2))
            if i < 2:
                b = b + (votes * v[:, :, None]).sum(-1)
        return v.norm(dim=-1), self.dec(v.flatten(1))


class Convolved(nn.Module):
    def __init__(self, w):
        super().__init__()
        self.norm, self.bn = nn.LayerNorm(w), nn.BatchNorm1d(w)
        self.up, self.down = nn.Conv1d(w, 2 * w, 1), nn.Conv1d(w, w, 1)
        self.depth = nn.Conv1d(w, w, 31, padding=15, groups=w)

    def forward(self, x):
        y = F.glu(self.up(self.norm(x).transpose(1, 2)), 1)
        return self.down(F.silu(self.bn(self.depth(y)))).transpose(1, 2)


class ConformerBlock(nn.Module):
    def __init__(self, w):
        super().__init__()
        self.first, self.second = (
            nn.Sequential(
                nn.LayerNorm(w),
                nn.Linear(w, 4 * w),
                nn.SiLU(),
                nn.Dropout(0.1),
                nn.Linear(4 * w, w),
                nn.Dropout(0.1),
            )
            for _ in range(2)
        )
        self.n1, self.n2 = nn.LayerNorm(w), nn.LayerNorm(w)
        self.attn = nn.MultiheadAttention(w, 4, dropout=0.1, batch_first=True)
        self.conv = Convolved(w)

    def forward(self, x):
        x = x + 0.5 * self.first(x)
        y = self.n1(x)
        x = x + self.attn(y, y, y)[0]
        x = x + self.conv(x)
        return self.n2(x + 0.5 * self.second(x))


class Conformer(nn.Module):
    """Speech, whose loss reads the lengths of its targets."""

    def __init__(self, w=256, layers=4, vocab=500):
        super().__init__()
        self.sub = nn.Sequential(nn.Conv2d(1, w, 3, 2), nn.ReLU(), nn.Conv2d(w, w, 3, 2), nn.ReLU())
        self.inp = nn.Linear(w * 19, w)
        self.blocks = nn.ModuleList(ConformerBlock(w) for _ in range(layers))
        self.out = nn.Linear(w, vocab)

    def forward(self, x):
        x = self.inp(self.sub(x[:, None]).transpose(1, 2).flatten(2))
        for block in self.blocks:
            x = block(x)
        return self.out(x).log_softmax(-1)


def ctc(y):
    b, t, _ = y.shape
    like = {"dtype": torch.long, "device": y.device}
    steps, labels = torch.full((b,), t, **like), torch.full((b,), 20, **like)
    return F.ctc_loss(y.transpose(0, 1).float(), torch.ones(b, 20, **like), steps, labels)


def encoder(w=64):
    layers = []
    for i, o in ((3, w), (w, 2 * w), (2 * w, 4 * w)):
        layers += [nn.Conv2d(i, o, 3, 2, 1), nn.BatchNorm2d(o), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4 * w, 128))


class Contrast(nn.Module):
    """An encoder that is not trained and a buffer larger than all parameters."""

    def __init__(self):
        super().__init__()
        self.query, self.key = encoder(), encoder().requires_grad_(False)
        self.register_buffer("queue", torch.zeros(128, 65536))

    def forward(self, a, b):
        q = F.normalize(self.query(a), dim=1)
        with torch.no_grad():
            k = F.normalize(self.key(b), dim=1)
        far = q @ self.queue.to(q.dtype).clone()
        logits = torch.cat([(q * k).sum(-1, keepdim=True).to(far.dtype), far], 1) / 0.07
        return F.cross_entropy(logits, torch.zeros(len(a), dtype=torch.long, device=a.device))


class Coupling(nn.Module):
    def __init__(self, c, w):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1, c, 1, 1))
        self.mix = nn.Parameter(torch.eye(c))
        self.net = nn.Sequential(
            nn.Conv2d(c // 2, w, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(w, w, 1),
            nn.ReLU(),
            nn.Conv2d(w, c, 3, padding=1),
        )

    def forward(self, x, volume):
        volume = volume + x.shape[2] * x.shape[3] * self.scale.abs().log().sum()
        a, b = F.conv2d(x * self.scale, self.mix[:, :, None, None]).chunk(2, 1)
        shift, scale = self.net(a).chunk(2, 1)
        scale = torch.sigmoid(scale + 2)
        return torch.cat([a, (b + shift) * scale], 1), volume + scale.log().flatten(1).sum(1)


class Flow(nn.Module):
    def __init__(self, c=12, w=256, layers=8):
        super().__init__()
        self.flow = nn.ModuleList(Coupling(c, w) for _ in range(layers))

    def forward(self, x):
        x, volume = F.pixel_unshuffle(x, 2), torch.zeros(x.shape[0], device=x.device)
        for layer in self.flow:
            x, volume = layer(x, volume)
        return x, volume


MORE = {
    "points": (PointNet, lambda b: ((torch.zeros(b, 1024, 3),), {}), 2, 16, None),
    "rays": (Rays, lambda b: ((torch.zeros(b, 6),), {}), 4, 1024, lambda y: y.pow(2).mean()),
    "capsules": (Capsules, lambda b: ((image(b, 1, 28),), {}), 2, 64, None),
    "conformer": (Conformer, lambda b: ((torch.zeros(b, 400, 80),), {}), 2, 16, ctc),
    "contrast": (Contrast, lambda b: ((image(b, 3, 64),) * 2, {}), 4, 128, lambda y: y),
    "flow": (
        Flow,
        lambda b: ((image(b, 3, 64),), {}),
        2,
        16,
        lambda o: ((o[0] ** 2).flatten(1).sum(1) / 2 - o[1]).mean(),
    ),
}

MORE_PEAKS = {
    "points": {"fp32": 940950672, "autocast": 571579016, "bf16": 563310148},
    "rays": {"fp32": 882329672, "autocast": 528591436, "bf16": 490183212},
    "capsules": {"fp32": 422449224, "autocast": 346272328, "bf16": 258410692},
    "conformer": {"fp32": 606161896, "autocast": 418423784, "bf16": 329144520},
    "contrast": {"fp32": 304610872, "autocast": 216221744, "bf16": 152307764},
    "flow": {"fp32": 366571832, "autocast": 210485792, "bf16": 200063200},
}

SHARDED_TABLES = {"fp32": 304240728, "mixed": 190848340}
"""DLRM of ``unseen`` on the first of eight ranks, each table a unit of FSDP2; then the same with 16-bit
compute and fp32 reduction (``MixedPrecisionPolicy``)."""
