"""What is exported: each model with its inputs, its dynamic dimensions, and the opsets of each exporter."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import nn

from tests.models.torch_exports import feeds, language, recurrent, vision
from tests.models.torch_exports.feeds import Feeds, Size

LEGACY, DYNAMO, TRACED = "torchscript", "dynamo", "dynamo, not optimised"
"""The exporters of torch.onnx: ``dynamo=False``, ``dynamo=True``, and the latter with ``optimize=False``."""


@dataclass(frozen=True)
class Large:
    """A model in the size that people use, for timing.

    Attributes:
        build: makes it.
        size: of its inputs.
        feeds, outputs: where they are others than the case's.
    """

    build: Callable[[], nn.Module]
    size: Size
    feeds: Callable[[Size, int], Feeds] | None = None
    outputs: Sequence[str] = ()


@dataclass(frozen=True)
class Case:
    """A model to export.

    Attributes:
        name: what the tables call it.
        build: makes it; the weights come after.
        feeds: inputs by name, in order, from a size and a seed.
        sizes: the sizes to run; the first is the one that is exported with.
        dynamic: input to axis to the name of a dimension that is not fixed.
        outputs: names.
        opsets: exporter to opsets.
        holds: exporter to operators that its newest export must hold, since the case is there to test them.
        tolerance: greatest error allowed, as a part of the greatest magnitude expected.
        scripted: compiled by torch.jit.script first.
        large: the model to time, if any.
    """

    name: str
    build: Callable[[], nn.Module]
    feeds: Callable[[Size, int], Feeds]
    sizes: Sequence[Size]
    dynamic: Mapping[str, Mapping[int, str]]
    outputs: Sequence[str]
    opsets: Mapping[str, Sequence[int]]
    holds: Mapping[str, Sequence[str]] = field(default_factory=dict)
    tolerance: float = 2e-5
    scripted: bool = False
    large: Large | None = None


def ready(build: Callable[[], nn.Module], seed: int = 0) -> nn.Module:
    """A model with seeded random weights, set to inference."""
    torch.manual_seed(seed)
    return randomised(build()).eval()


@torch.no_grad()
def randomised(model: nn.Module) -> nn.Module:
    """Weights that keep activations of order one, and statistics and offsets that are not 0 and 1."""
    for part in model.modules():
        if isinstance(part, nn.Conv2d | nn.ConvTranspose2d):
            part.weight.normal_(0.0, math.sqrt(2.0 / math.prod(part.weight.shape[1:])))
        elif isinstance(part, nn.BatchNorm2d | nn.GroupNorm | nn.LayerNorm | language.RmsNorm):
            part.weight.uniform_(0.8, 1.2)
        if isinstance(part, nn.BatchNorm2d):
            part.running_mean.normal_(0.0, 0.1)
            part.running_var.uniform_(0.8, 1.25)
        if isinstance(getattr(part, "bias", None), torch.Tensor):
            part.bias.normal_(0.0, 0.1)
    for part in model.modules():
        if isinstance(part, vision.Bottleneck | vision.InvertedResidual):
            part.branch[-1].weight.uniform_(0.2, 0.4)  # so that many shortcuts in a row stay of order one
    return model


ALL = tuple(range(9, 21))
"""The opsets of the older exporter that are tried; it ends at 20."""
NEW = tuple(range(18, 24))
"""The opsets that the newer exporter has translations for; below, it converts, which often fails."""
EACH: Mapping[str, Sequence[int]] = {LEGACY: ALL, DYNAMO: NEW, TRACED: (18, 23)}
IMAGE = {"image": {0: "batch", 2: "height", 3: "width"}}
TOKENS = {0: "batch", 1: "length"}
ROWS = {"x": {0: "batch"}}


def _image_case(name: str, build: Callable[[], nn.Module], sizes: Sequence[Size], **options: Any) -> Case:
    usual: dict[str, Any] = {"dynamic": IMAGE, "outputs": ["y"], "opsets": EACH}
    return Case(name, build, feeds.image, sizes, **{**usual, **options})


def _decoder(name: str, build: Callable[[int], nn.Module], groups: int, head: int, **options: Any) -> Case:
    """A model of two layers with a cache; ``build`` takes the number of layers."""
    dynamic = {past: {0: "batch", 2: "past"} for past in feeds.cache_names(2, "past")}
    return Case(
        name,
        partial(build, 2),
        partial(feeds.cached, depth=2, groups=groups, head=head),
        [(2, 5, 3), (1, 1, 7), (3, 4, 0)],
        {"input_ids": TOKENS, "attention_mask": {0: "batch", 1: "total"}, **dynamic},
        ["logits", *feeds.cache_names(2, "present")],
        **options,
    )


def _large_decoder(build: Callable[[], nn.Module], depth: int, groups: int, head: int, size: Size) -> Large:
    draw = partial(feeds.cached, depth=depth, groups=groups, head=head)
    return Large(build, size, draw, ["logits", *feeds.cache_names(depth, "present")])


CASES = (
    _image_case(
        "ResNet-50",
        lambda: vision.ResNet50(8, 10),
        [(2, 3, 64, 64), (1, 3, 96, 80)],
        holds={TRACED: ["BatchNormalization", "MaxPool"]},
        large=Large(lambda: vision.ResNet50(64, 1000), (1, 3, 224, 224)),
    ),
    _image_case(
        "MobileNetV2",
        lambda: vision.MobileNetV2(0.25, 10),
        [(2, 3, 64, 64), (1, 3, 96, 80)],
        holds={LEGACY: ["Clip"]},
        large=Large(lambda: vision.MobileNetV2(1.0, 1000), (1, 3, 224, 224)),
    ),
    _image_case(
        "U-Net with GroupNorm",
        lambda: vision.UNet(8, 4, 2),
        [(2, 3, 32, 48), (1, 3, 40, 24)],
        opsets={**EACH, DYNAMO: (15, 16, 17, *NEW)},
        holds={LEGACY: ["InstanceNormalization", "ConvTranspose"], DYNAMO: ["GroupNormalization"]},
        large=Large(lambda: vision.UNet(32, 8, 2), (1, 3, 256, 256)),
    ),
    _image_case(
        "segmenter",
        lambda: vision.Segmenter(8, 3),
        [(2, 3, 32, 48), (1, 3, 41, 27)],
        outputs=["smooth", "sharp"],
        opsets={**EACH, LEGACY: ALL[2:]},
        holds={LEGACY: ["Resize", "Pad", "HardSwish"]},
        large=Large(lambda: vision.Segmenter(64, 21), (1, 3, 256, 256)),
    ),
    _image_case(
        "ViT",
        lambda: vision.ViT(32, 2, 4, 8, 4, 10),
        [(2, 3, 32, 32), (1, 3, 48, 40)],
        opsets={DYNAMO: (17, *NEW), TRACED: (18, 23)},
        holds={DYNAMO: ["Attention", "Gelu"]},
    ),
    _image_case(
        "ViT, fixed size",
        lambda: vision.ViT(32, 2, 4, 8, 4, 10),
        [(2, 3, 48, 40), (1, 3, 48, 40)],
        dynamic={"image": {0: "batch"}},
        opsets={LEGACY: ALL[5:]},
        holds={LEGACY: ["LayerNormalization", "Softmax"]},
        large=Large(lambda: vision.ViT(384, 12, 6, 16, 14, 1000), (1, 3, 224, 224)),
    ),
    Case(
        "GridSample",
        vision.Warp,
        feeds.image_and_grid,
        [(2, 3, 9, 7, 5, 6), (1, 3, 12, 17, 8, 3)],
        {**IMAGE, "grid": {0: "batch", 1: "rows", 2: "columns"}},
        [f"y{index}" for index in range(9)],
        {**EACH, LEGACY: ALL[7:], DYNAMO: (16, 17, *NEW)},
        holds={LEGACY: ["GridSample"], DYNAMO: ["GridSample"]},
    ),
    _image_case(
        "spatial transformer",
        lambda: vision.SpatialTransformer(8, 10),
        [(2, 3, 20, 24), (1, 3, 17, 31)],
        opsets={LEGACY: (20,)},
        holds={LEGACY: ["AffineGrid", "GridSample"]},
    ),
    _image_case(
        "spatial transformer, fixed size",
        lambda: vision.SpatialTransformer(8, 10),
        [(2, 3, 20, 24), (3, 3, 20, 24)],
        dynamic={"image": {0: "batch"}},
        opsets={DYNAMO: NEW, TRACED: (18, 23)},
        holds={DYNAMO: ["GridSample"]},
    ),
    Case(
        "BERT",
        lambda: language.Bert(32, 2, 4, 500, 64),
        feeds.sentences,
        [(2, 9), (3, 24)],
        dict.fromkeys(("input_ids", "attention_mask", "token_type_ids"), TOKENS),
        ["hidden", "pooled"],
        {**EACH, DYNAMO: (17, *NEW)},
        large=Large(lambda: language.Bert(768, 12, 12, 500, 128), (1, 128)),
    ),
    _decoder(
        "GPT-2",
        lambda depth: language.Gpt2(32, depth, 4, 500, 64, fused=False),
        4,
        8,
        opsets={**EACH, LEGACY: ALL[3:]},
        large=_large_decoder(
            lambda: language.Gpt2(768, 12, 12, 500, 256, fused=False), depth=12, groups=12, head=64, size=(1, 1, 128)
        ),
    ),
    _decoder(
        "GPT-2, torch's attention",
        lambda depth: language.Gpt2(32, depth, 4, 500, 64, fused=True),
        4,
        8,
        opsets={**EACH, LEGACY: ALL[5:]},
        holds={DYNAMO: ["Attention"]},
    ),
    _decoder(
        "Llama",
        lambda depth: language.Llama(32, depth, 4, 2, 500, 64, "written"),
        2,
        8,
        opsets={**EACH, LEGACY: ALL[3:]},
        holds={DYNAMO: ["RMSNormalization"]},
        large=_large_decoder(
            lambda: language.Llama(768, 8, 12, 4, 500, 256, "written"), depth=8, groups=4, head=64, size=(1, 64, 0)
        ),
    ),
    _decoder(
        "Llama, torch's attention",
        lambda depth: language.Llama(32, depth, 4, 2, 500, 64, "torch"),
        2,
        8,
        opsets={DYNAMO: NEW, TRACED: (18, 23)},
        holds={DYNAMO: ["RMSNormalization", "Attention"]},
    ),
    _decoder(
        "Llama, opset 23",
        lambda depth: language.Llama(32, depth, 4, 2, 500, 64, "onnx"),
        2,
        8,
        opsets={DYNAMO: (23,), TRACED: (23,)},
        holds={DYNAMO: ["RMSNormalization", "RotaryEmbedding", "Attention"]},
    ),
    *(
        Case(
            kind,
            partial(recurrent.Tagger, kind, 6, 8, 5),
            feeds.sequences,
            [(2, 7, 6, 8), (3, 4, 6, 8)],
            {"x": TOKENS, "hidden": {1: "batch"}},
            ["y", "last"],
            {LEGACY: ALL},
            holds={LEGACY: [kind]},
            large=Large(partial(recurrent.Tagger, kind, 128, 256, 20), (1, 100, 128, 256)),
        )
        for kind in ("LSTM", "GRU", "RNN")
    ),
    *(
        Case(
            f"{kind}, fixed length",
            partial(recurrent.Tagger, kind, 6, 8, 5),
            feeds.sequences,
            [(2, 7, 6, 8), (3, 7, 6, 8)],
            {"x": {0: "batch"}, "hidden": {1: "batch"}},
            ["y", "last"],
            {DYNAMO: (15, 16, 17, *NEW), TRACED: (18, 23)},
            holds={DYNAMO: [kind]},
        )
        for kind in ("LSTM", "GRU")
    ),
    Case(
        "LSTM, packed sequences",
        lambda: recurrent.PackedTagger(6, 8, 5),
        feeds.packed,
        [(3, 7, 6), (2, 4, 6)],
        {"x": TOKENS, "lengths": {0: "batch"}},
        ["y"],
        {LEGACY: ALL},
        holds={LEGACY: ["LSTM"]},
    ),
    Case(
        "scripted for",
        lambda: recurrent.ScriptedLoop(6),
        feeds.rows_and_steps,
        [(2, 6), (5, 6)],
        ROWS,
        ["y", "total"],
        {LEGACY: ALL},
        holds={LEGACY: ["Loop"]},
        scripted=True,
    ),
    Case(
        "scripted while and if",
        lambda: recurrent.ScriptedWhile(6),
        feeds.rows_of_either_sign,
        [(2, 6), (5, 6)],
        ROWS,
        ["y", "steps"],
        {LEGACY: ALL},
        holds={LEGACY: ["Loop", "If"]},
        scripted=True,
    ),
    Case(
        "scripted if",
        lambda: recurrent.ScriptedIf(6),
        feeds.rows_of_either_sign,
        [(2, 6), (5, 6)],
        ROWS,
        ["y"],
        {LEGACY: ALL},
        holds={LEGACY: ["If"]},
        scripted=True,
    ),
    Case(
        "cond",
        lambda: recurrent.Conditional(6),
        feeds.rows_of_either_sign,
        [(2, 6), (5, 6)],
        ROWS,
        ["y"],
        {DYNAMO: (16, 17, *NEW), TRACED: (18, 23)},
        holds={DYNAMO: ["If"], TRACED: ["If"]},
    ),
    Case(
        "while_loop",
        lambda: recurrent.Repeated(6),
        feeds.rows_and_steps,
        [(2, 6), (5, 6)],
        ROWS,
        ["y", "total"],
        {DYNAMO: (16, 17, *NEW), TRACED: (18, 23)},
        holds={DYNAMO: ["Loop"], TRACED: ["Loop"]},
    ),
    Case(
        "scan",
        lambda: recurrent.Scanned(6),
        feeds.steps_and_state,
        [(4, 2, 6), (7, 3, 6)],
        {"x": {0: "length", 1: "batch"}, "hidden": {0: "batch"}},
        ["last", "y"],
        {DYNAMO: (14, 15, 16, 17, *NEW), TRACED: (18, 23)},
        holds={DYNAMO: ["Scan"], TRACED: ["Scan"]},
    ),
)
