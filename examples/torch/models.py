"""Models to try export.py and run.py on. Each function gives a model and a batch; the model gives its loss."""

import torch
from torch import nn
from torch.nn import functional as F


class ResidualMLP(nn.Module):
    """Blocks of two linear layers beside a residual."""

    def __init__(self, layers=8, width=64):
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
            for _ in range(layers)
        )
        self.head = nn.Linear(width, 10)

    def forward(self, x, labels):
        for block in self.blocks:
            x = x + block(x)
        return F.cross_entropy(self.head(x), labels)


def mlp():
    torch.manual_seed(1)
    return ResidualMLP(), (torch.randn(512, 64), torch.randint(10, (512,)))


class Attention(nn.Module):
    """Causal self-attention with dropout on its weights."""

    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.dropout = dropout

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2) for t in self.qkv(x).split(width, dim=2))
        scores = q @ k.transpose(-2, -1) * (width // self.heads) ** -0.5
        mask = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        weights = scores.masked_fill(mask, float("-inf")).softmax(-1)
        weights = F.dropout(weights, self.dropout, self.training)
        return self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    """A layer of a transformer."""

    def __init__(self, width, heads, dropout):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, dropout)
        inner = 4 * width
        self.mlp = nn.Sequential(nn.Linear(width, inner), nn.GELU(), nn.Linear(inner, width), nn.Dropout(dropout))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """A language model whose last layer has the weights of its embedding."""

    def __init__(self, vocabulary=512, length=128, width=192, layers=4, heads=4, dropout=0.1):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.places = nn.Embedding(length, width)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(Block(width, heads, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens, targets):
        x = self.dropout(self.tokens(tokens) + self.places.weight[: tokens.shape[1]])
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten())


def gpt(layers=4, batch=8, **sizes):
    torch.manual_seed(2)
    model = GPT(layers=layers, **sizes)
    tokens = torch.randint(model.tokens.num_embeddings, (batch, model.places.num_embeddings + 1))
    return model, (tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())


class ConvNet(nn.Module):
    """Convolutions with batch norm, which changes its statistics in each step."""

    def __init__(self, width=16, blocks=4):
        super().__init__()
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(inplace=True))
            for _ in range(blocks)
        )
        self.head = nn.Linear(width, 10)

    def forward(self, images, labels):
        x = self.first(images)
        for block in self.blocks:
            x = x + block(x)
        return F.cross_entropy(self.head(F.max_pool2d(x, 2).mean((2, 3))), labels)


def convnet():
    torch.manual_seed(3)
    return ConvNet(), (torch.randn(8, 3, 48, 48), torch.randint(10, (8,)))


class Views(nn.Module):
    """What is awkward: views changed in place, chunks, a random shift, a counter, a frozen and an unused parameter."""

    def __init__(self, width=64):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(6))
        self.scale = nn.Parameter(torch.ones(width), requires_grad=False)
        self.unused = nn.Parameter(torch.ones(3))
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))
        self.register_buffer("mean", torch.zeros(width))

    def forward(self, x):
        self.steps += 1
        for layer in self.layers:
            x = layer(x)
            half = x.shape[1] // 2
            x[:, half:].relu_()
            left, right = x.chunk(2, dim=1)
            x = torch.cat((left.tanh(), right * 2), dim=1) + x.view(-1).view_as(x)
            x[:, 0] = 0
            x = x + 0.01 * torch.rand_like(x)
        self.mean.mul_(0.9).add_(x.detach().mean(0), alpha=0.1)
        return (x * self.scale).pow(2).mean(), x[0]


def views():
    torch.manual_seed(4)
    return Views(), (torch.randn(512, 64),)


def down(inputs, outputs):
    """Two convolutions with batch norm."""
    layers = []
    for width in (inputs, outputs):
        layers += [nn.Conv2d(width, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """A convolutional network that goes down and up again, with connections across."""

    def __init__(self, width=8, depth=3, classes=4):
        super().__init__()
        widths = [width * 2**i for i in range(depth + 1)]
        self.down = nn.ModuleList(down(a, b) for a, b in zip([3, *widths], widths))
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, stride=2) for a, b in zip(widths, widths[1:]))
        self.join = nn.ModuleList(down(2 * a, a) for a in widths[:-1])
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, images, labels):
        x, across = images, []
        for layer in self.down[:-1]:
            x = layer(x)
            across.append(x)
            x = F.max_pool2d(x, 2)
        x = self.down[-1](x)
        for up, join in zip(reversed(self.up), reversed(self.join)):
            x = join(torch.cat((across.pop(), up(x)), dim=1))
        return F.cross_entropy(self.head(x), labels)


def unet(batch=4, size=64, **sizes):
    torch.manual_seed(5)
    model = UNet(**sizes)
    return model, (torch.randn(batch, 3, size, size), torch.randint(4, (batch, size, size)))
