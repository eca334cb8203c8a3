"""Networks on images: ResNet-50, MobileNetV2, U-Net, ViT, and networks that sample from a grid."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class Bottleneck(nn.Module):
    """1 x 1, 3 x 3 and 1 x 1 convolutions around a shortcut."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = 4 * width
        self.branch = nn.Sequential(
            nn.Conv2d(inputs, width, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, stride, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.shortcut = nn.Sequential()
        if stride > 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        """[N, C, H, W] -> [N, 4 width, H / stride, W / stride]."""
        return functional.relu(self.branch(x) + self.shortcut(x))


class ResNet50(nn.Module):
    """The 50 layers of He et al. 2016, https://arxiv.org/abs/1512.03385; ``width`` is 64 there."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        )
        blocks = []
        inputs = width
        for stage, depth in enumerate((3, 4, 6, 3)):
            for index in range(depth):
                stride = 2 if stage and not index else 1
                blocks.append(Bottleneck(inputs, width << stage, stride))
                inputs = 4 * width << stage
        self.blocks = nn.Sequential(*blocks)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classes = nn.Linear(inputs, classes)

    def forward(self, image: Tensor) -> Tensor:
        """[N, 3, H, W] -> [N, classes]."""
        return self.classes(torch.flatten(self.pool(self.blocks(self.stem(image))), 1))


class InvertedResidual(nn.Module):
    """Widen, filter each channel alone, narrow."""

    def __init__(self, inputs: int, outputs: int, stride: int, widening: int) -> None:
        super().__init__()
        width = inputs * widening
        layers = [] if widening == 1 else [nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU6()]
        layers += [
            nn.Conv2d(width, width, 3, stride, 1, groups=width, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU6(),
            nn.Conv2d(width, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        ]
        self.branch = nn.Sequential(*layers)
        self.has_shortcut = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        """[N, inputs, H, W] -> [N, outputs, H / stride, W / stride]."""
        return x + self.branch(x) if self.has_shortcut else self.branch(x)


class MobileNetV2(nn.Module):
    """The network of Sandler et al. 2018, https://arxiv.org/abs/1801.04381; ``part`` of its width."""

    SETTINGS = (
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    )

    def __init__(self, part: float, classes: int) -> None:
        super().__init__()
        inputs = int(32 * part)
        layers: list[nn.Module] = [
            nn.Sequential(nn.Conv2d(3, inputs, 3, 2, 1, bias=False), nn.BatchNorm2d(inputs), nn.ReLU6())
        ]
        for widening, channels, depth, stride in self.SETTINGS:
            for index in range(depth):
                outputs = int(channels * part)
                layers.append(InvertedResidual(inputs, outputs, 1 if index else stride, widening))
                inputs = outputs
        last = int(1280 * part)
        layers.append(nn.Sequential(nn.Conv2d(inputs, last, 1, bias=False), nn.BatchNorm2d(last), nn.ReLU6()))
        self.features = nn.Sequential(*layers)
        self.classes = nn.Sequential(nn.Dropout(0.2), nn.Linear(last, classes))

    def forward(self, image: Tensor) -> Tensor:
        """[N, 3, H, W] -> [N, classes]."""
        return self.classes(self.features(image).mean((2, 3)))


def _double(inputs: int, outputs: int, groups: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, 1, 1),
        nn.GroupNorm(groups, outputs),
        nn.SiLU(),
        nn.Conv2d(outputs, outputs, 3, 1, 1),
        nn.GroupNorm(groups, outputs),
        nn.SiLU(),
    )


class UNet(nn.Module):
    """The shape of Ronneberger et al. 2015, https://arxiv.org/abs/1505.04597, with GroupNormalization and SiLU.

    The way up is by a transposed convolution first, and by nearest neighbours and a convolution after.
    """

    def __init__(self, width: int, groups: int, channels: int) -> None:
        super().__init__()
        self.down1 = _double(3, width, groups)
        self.down2 = _double(width, 2 * width, groups)
        self.bottom = _double(2 * width, 4 * width, groups)
        self.up2 = nn.ConvTranspose2d(4 * width, 2 * width, 2, 2)
        self.merge2 = _double(4 * width, 2 * width, groups)
        self.up1 = nn.Sequential(nn.Upsample(scale_factor=2.0, mode="nearest"), nn.Conv2d(2 * width, width, 3, 1, 1))
        self.merge1 = _double(2 * width, width, groups)
        self.last = nn.Conv2d(width, channels, 1)

    def forward(self, image: Tensor) -> Tensor:
        """[N, 3, H, W], H and W multiples of 4 -> [N, channels, H, W]."""
        wide = self.down1(image)
        middle = self.down2(functional.max_pool2d(wide, 2))
        deep = self.bottom(functional.max_pool2d(middle, 2))
        middle = self.merge2(torch.cat([middle, self.up2(deep)], 1))
        return self.last(self.merge1(torch.cat([wide, self.up1(middle)], 1)))


class Segmenter(nn.Module):
    """Dilated convolutions and a pooled context, brought back to the image's size, bilinear and bicubic."""

    def __init__(self, width: int, channels: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.ReflectionPad2d(1), nn.Conv2d(3, width, 3, 2), nn.Hardswish())
        self.rates = nn.ModuleList([nn.Conv2d(width, width, 3, 1, rate, rate) for rate in (1, 2, 3)])
        self.context = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(width, width, 1), nn.Sigmoid())
        self.last = nn.Conv2d(3 * width, channels, 1)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """[N, 3, H, W] -> [N, channels, H, W] and [N, channels, H, W]."""
        x = self.stem(image)
        x = x * self.context(x)
        x = self.last(torch.cat([functional.leaky_relu(layer(x)) for layer in self.rates], 1))
        size = image.shape[2:]
        smooth = functional.interpolate(x, size=size, mode="bilinear", align_corners=False)
        return smooth, functional.interpolate(x, size=size, mode="bicubic", align_corners=True)


class EncoderBlock(nn.Module):
    """A transformer block with the normalisation first, around ``nn.MultiheadAttention``."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.norm2 = nn.LayerNorm(width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        """[N, L, width] -> [N, L, width]."""
        y = self.norm1(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.feed(self.norm2(x))


class ViT(nn.Module):
    """The vision transformer of Dosovitskiy et al. 2021, https://arxiv.org/abs/2010.11929.

    Its position embedding is resized to the image's patches, so that images may have any size.
    """

    def __init__(self, width: int, depth: int, heads: int, patch: int, side: int, classes: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.start = nn.Parameter(torch.randn(1, 1, width))
        self.positions = nn.Parameter(torch.randn(1, width, side, side))
        self.blocks = nn.Sequential(*(EncoderBlock(width, heads) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        self.classes = nn.Linear(width, classes)

    def forward(self, image: Tensor) -> Tensor:
        """[N, 3, H, W], H and W multiples of the patch -> [N, classes]."""
        patches = self.patches(image)
        positions = functional.interpolate(self.positions, size=patches.shape[2:], mode="nearest")
        tokens = (patches + positions).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.start.expand(tokens.shape[0], -1, -1), tokens], 1)
        return self.classes(self.norm(self.blocks(tokens))[:, 0])


class Warp(nn.Module):
    """GridSample in every mode: three interpolations, three kinds of padding, both meanings of the corners."""

    def forward(self, image: Tensor, grid: Tensor) -> tuple[Tensor, ...]:
        """[N, C, H, W] and [N, H', W', 2] -> nine of [N, C, H', W']."""
        return tuple(
            functional.grid_sample(image, grid, mode, padding, corners)
            for mode in ("bilinear", "nearest", "bicubic")
            for padding, corners in (("zeros", False), ("border", True), ("reflection", False))
        )


class SpatialTransformer(nn.Module):
    """Jaderberg et al. 2015, https://arxiv.org/abs/1506.02025: a network that straightens its input before it looks."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.where = nn.Sequential(nn.Conv2d(3, width, 5, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.transform = nn.Linear(width, 6)
        self.look = nn.Sequential(nn.Conv2d(3, width, 3), nn.ELU(), nn.AdaptiveMaxPool2d(1), nn.Flatten())
        self.classes = nn.Linear(width, classes)
        self.identity = nn.Parameter(torch.eye(2, 3).flatten())

    def forward(self, image: Tensor) -> Tensor:
        """[N, 3, H, W] -> [N, classes]."""
        matrix = self.identity + 0.2 * torch.tanh(self.transform(self.where(image)))
        size = [image.shape[0], image.shape[1], image.shape[2], image.shape[3]]
        grid = functional.affine_grid(matrix.view(-1, 2, 3), size, align_corners=False)
        return self.classes(self.look(functional.grid_sample(image, grid, align_corners=False)))
