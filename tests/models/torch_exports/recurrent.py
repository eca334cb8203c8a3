"""Recurrent networks, and models with If, Loop and Scan."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch._higher_order_ops import scan, while_loop
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class Tagger(nn.Module):
    """Two recurrent layers that read forwards and backwards, batch first, from given states on."""

    def __init__(self, kind: str, width: int, hidden: int, labels: int) -> None:
        super().__init__()
        options: dict[str, Any] = {"num_layers": 2, "bidirectional": True, "batch_first": True}
        self.layers = getattr(nn, kind)(width, hidden, **options)
        self.labels = nn.Linear(2 * hidden, labels)
        self.has_cell = kind == "LSTM"

    def forward(self, x: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """[N, L, width] and [4, N, hidden] -> [N, L, labels] and [4, N, hidden]."""
        y, last = self.layers(x, (hidden, torch.tanh(hidden)) if self.has_cell else hidden)
        return self.labels(y), last[1] if self.has_cell else last


class PackedTagger(nn.Module):
    """An LSTM over sentences of several lengths, the longest first."""

    def __init__(self, width: int, hidden: int, labels: int) -> None:
        super().__init__()
        self.layers = nn.LSTM(width, hidden, bidirectional=True, batch_first=True)
        self.labels = nn.Linear(2 * hidden, labels)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        """[N, L, width] and int64 [N], the first of which is L -> [N, L, labels]."""
        y, _ = self.layers(pack_padded_sequence(x, lengths, batch_first=True))
        return self.labels(pad_packed_sequence(y, batch_first=True)[0])


class ScriptedLoop(nn.Module):
    """A loop of a number of steps that is an input, compiled by torch.jit.script."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer = nn.Linear(width, width)

    def forward(self, x: Tensor, steps: Tensor) -> tuple[Tensor, Tensor]:
        """[N, width] and int64 [] -> [N, width] twice: the state after ``steps`` steps, the sum of all states."""
        total = torch.zeros_like(x)
        for _ in range(int(steps)):
            x = torch.tanh(self.layer(x))
            total = total + x
        return x, total


class ScriptedWhile(nn.Module):
    """A loop that ends when the values are small, with an If inside, compiled by torch.jit.script."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer = nn.Linear(width, width)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """[N, width] -> [N, width], and int64 []: the number of steps."""
        steps = torch.zeros([], dtype=torch.int64)
        while bool(x.abs().max() > 1.0) and bool(steps < 20):
            x = 0.5 * x + torch.tanh(self.layer(x)) if bool(x.mean() > 0) else 0.5 * x - 0.25
            steps = steps + 1
        return x, steps


class ScriptedIf(nn.Module):
    """Two branches, compiled by torch.jit.script."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """[N, width] -> [N, width]."""
        y = torch.relu(self.up(x)) if bool(x.sum() > 0) else torch.sigmoid(self.down(x)) * x
        return y + 1


class Conditional(nn.Module):
    """``torch.cond``, which becomes If."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """[N, width] -> [N, width]."""

        def positive(x: Tensor) -> Tensor:
            return torch.relu(self.up(x))

        def negative(x: Tensor) -> Tensor:
            return torch.sigmoid(self.down(x)) * x

        return torch.cond(x.sum() > 0, positive, negative, (x,)) + 1


class Repeated(nn.Module):
    """``while_loop``, which becomes Loop."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer = nn.Linear(width, width)

    def forward(self, x: Tensor, steps: Tensor) -> tuple[Tensor, Tensor]:
        """[N, width] and int64 [] -> [N, width] twice."""

        def more(step: Tensor, x: Tensor, total: Tensor) -> Tensor:
            return step > 0

        def body(step: Tensor, x: Tensor, total: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            x = torch.tanh(self.layer(x))
            return step - 1, x, total + x

        _, x, total = while_loop(more, body, (steps.clone(), x.clone(), torch.zeros_like(x)))
        return x, total


class Scanned(nn.Module):
    """``scan``, which becomes Scan: an Elman network over the first axis."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer = nn.Linear(2 * width, width)

    def forward(self, x: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """[L, N, width] and [N, width] -> [N, width] and [L, N, width]."""

        def step(hidden: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
            hidden = torch.tanh(self.layer(torch.cat([hidden, x], 1)))
            return hidden, hidden * 2

        return scan(step, hidden, x, dim=0)
