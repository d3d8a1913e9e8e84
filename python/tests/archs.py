"""Models that the core has never seen, for the trace."""

import torch
from torch import nn


class UNet(nn.Module):
    """Down, across and up again, with skips."""

    def __init__(self, width=16):
        super().__init__()
        sizes = [width, 2 * width, 4 * width]
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.down = nn.ModuleList(
            self.block(a, b) for a, b in zip([width, *sizes], sizes, strict=False)
        )
        self.middle = self.block(sizes[-1], sizes[-1])
        self.up = nn.ModuleList(
            self.block(a + b, b)
            for a, b in [(sizes[2], sizes[2]), (sizes[2], sizes[1]), (sizes[1], width)]
        )
        self.head = nn.Conv2d(width, 3, 1)

    @staticmethod
    def block(inputs, outputs):
        return Block(inputs, outputs)

    def forward(self, x):
        x = self.stem(x)
        skips = []
        for block in self.down:
            x = block(x)
            skips.append(x)
            x = nn.functional.max_pool2d(x, 2)
        x = self.middle(x)
        for block in self.up:
            x = nn.functional.interpolate(x, scale_factor=2)
            x = block(torch.cat([x, skips.pop()], dim=1))
        return self.head(x)


class Block(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.norm = nn.GroupNorm(4, outputs)
        self.second = nn.Conv2d(outputs, outputs, 3, padding=1)

    def forward(self, x):
        return nn.functional.silu(self.second(nn.functional.silu(self.norm(self.first(x)))))


class Residual(nn.Module):
    def __init__(self, width, stride):
        super().__init__()
        self.one = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.norm = nn.BatchNorm2d(width)
        self.two = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.last = nn.BatchNorm2d(width)
        self.skip = nn.Conv2d(width, width, 1, stride, bias=False) if stride > 1 else nn.Identity()

    def forward(self, x):
        y = torch.relu(self.norm(self.one(x)))
        return torch.relu(self.last(self.two(y)) + self.skip(x))


class ConvNet(nn.Module):
    """A small residual network."""

    def __init__(self, width=64, blocks=6):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 7, 2, 3)
        self.blocks = nn.ModuleList(Residual(width, 2 if i % 3 == 0 else 1) for i in range(blocks))
        self.head = nn.Linear(width, 1000)

    def forward(self, x):
        x = torch.relu(self.stem(x))
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(dim=(2, 3)))


class Decoder(nn.Module):
    """A causal language model of its own kind: parallel blocks, squared relu, tied head."""

    def __init__(self, width=128, heads=4, layers=4, vocabulary=4096):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(Parallel(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


class Parallel(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        y = self.norm(x)
        b, s, w = y.shape
        q, k, v = self.qkv(y).view(b, s, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return (
            x
            + self.out(mixed.transpose(1, 2).reshape(b, s, w))
            + self.down(torch.relu(self.up(y)) ** 2)
        )


class Mixer(nn.Module):
    """An MLP-Mixer on patches."""

    def __init__(self, width=128, tokens=196, layers=4):
        super().__init__()
        self.patch = nn.Conv2d(3, width, 16, 16)
        self.layers = nn.ModuleList(MixerLayer(width, tokens) for _ in range(layers))
        self.head = nn.Linear(width, 1000)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        for layer in self.layers:
            x = layer(x)
        return self.head(x.mean(dim=1))


class MixerLayer(nn.Module):
    def __init__(self, width, tokens):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.across = nn.Sequential(nn.Linear(tokens, 64), nn.GELU(), nn.Linear(64, tokens))
        self.within = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        x = x + self.across(self.norms[0](x).transpose(1, 2)).transpose(1, 2)
        return x + self.within(self.norms[1](x))


class Recurrent(nn.Module):
    """Stacked LSTMs over features."""

    def __init__(self, width=128, layers=3):
        super().__init__()
        self.lstm = nn.LSTM(64, width, num_layers=layers, batch_first=True)
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        out, _ = self.lstm(x)
        return self.head(out[:, -1])


class Plain(nn.Module):
    """Layers one after the other, none in a list."""

    def __init__(self, width=512):
        super().__init__()
        self.one = nn.Linear(width, 4 * width)
        self.two = nn.Linear(4 * width, 4 * width)
        self.three = nn.Linear(4 * width, width)

    def forward(self, x):
        return self.three(torch.tanh(self.two(torch.tanh(self.one(x)))))


class Dilated(nn.Module):
    """A WaveNet: gated dilated convolutions whose skips are summed."""

    def __init__(self, width=64, blocks=8):
        super().__init__()
        self.stem = nn.Conv1d(1, width, 1)
        self.blocks = nn.ModuleList(Gated(width, 2 ** (i % 4)) for i in range(blocks))
        self.head = nn.Conv1d(width, 256, 1)

    def forward(self, x):
        x, skips = self.stem(x), 0
        for block in self.blocks:
            x, skip = block(x)
            skips = skips + skip
        return self.head(torch.relu(skips))


class Gated(nn.Module):
    def __init__(self, width, dilation):
        super().__init__()
        self.mix = nn.Conv1d(width, 2 * width, 3, padding=dilation, dilation=dilation)
        self.out = nn.Conv1d(width, 2 * width, 1)

    def forward(self, x):
        gate, value = self.mix(x).chunk(2, dim=1)
        rest, skip = self.out(torch.sigmoid(gate) * torch.tanh(value)).chunk(2, dim=1)
        return x + rest, skip


IMAGES, IDS, SERIES, FEATURES, SIGNAL = "images", "ids", "series", "features", "signal"
ARCHITECTURES = {
    "unet": (UNet, IMAGES),
    "convnet": (ConvNet, IMAGES),
    "decoder": (Decoder, IDS),
    "mixer": (Mixer, IMAGES),
    "plain": (Plain, FEATURES),
    "dilated": (Dilated, SIGNAL),
}


def example(kind, batch):
    """Inputs of a kind."""
    if kind == IMAGES:
        return torch.zeros(batch, 3, 224, 224)
    if kind == IDS:
        return torch.zeros(batch, 256, dtype=torch.long)
    if kind == SIGNAL:
        return torch.zeros(batch, 1, 4096)
    if kind == SERIES:
        return torch.zeros(batch, 50, 64)
    return torch.zeros(batch, 512)
