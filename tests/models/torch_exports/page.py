"""The page of models that run, ``docs/models.md``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from itertools import groupby

from tests.models.fetch import manifest
from tests.models.torch_exports.cases import CASES
from tests.models.torch_exports.compare import Result

COMMAND = "python -m tests.models.torch_exports --page docs/models.md"
PACKAGES = ("numpy", "onnx", "onnxruntime", "torch", "onnxscript")
HEAD = """\
# Models

Whole models that run in fast mode on NumPy, and how far their outputs lie from those of other runtimes. The command
`{command}` writes this page. It last did so with
{versions}.

An error is the greatest difference as a part of the greatest magnitude that the other runtime gives for the same
output. Integers are always equal. ONNX Runtime runs without its graph optimisations, and every engine on one thread.
The inputs are seeded, and two seeds must give different outputs.

## From packages

These files ship inside packages. The tests in `tests/models` fetch them with pip and check their SHA-256; nothing of
them is part of the repository. The light models get seeded random weights, since their own are all one constant. Where
an output is saturated, values from inside the graph are compared too. Errors are those of native kernels.

"""
MIDDLE = """
## Pipelines of scikit-learn

`tests/models/test_sklearn.py` fits pipelines on seeded data, converts them with skl2onnx, and compares them with
scikit-learn and with ONNX Runtime, in fast and in exact mode: 25 kinds of classifiers with two and three classes and
with words for classes, 21 kinds of regressors, outliers and clusters, scalers, encoders, imputers, columns of numbers
and words, ZipMap on and off, opsets 9 to 18. Labels are equal, numbers within 1e-4. A classifier of texts is written
with ai.onnx's StringSplit and TfIdfVectorizer, since skl2onnx takes com.microsoft's Tokenizer there.

## Quantised

`tests/models/test_quantized.py` quantises a small convolutional network and an encoder layer with ONNX Runtime's tools:
static (QDQ with 8 and 16-bit activations, with 8 and 4-bit weights, by tensor and by channel; QOperator), dynamic (int8
and uint8), blocks of 4 bits, and float16. Outputs are nearly always those of ONNX Runtime to the last digits; where a
number lies half way between two steps, a step apart.

## Exported by torch

`tests/models/torch_exports` writes these networks with `torch.nn` in small sizes, gives them seeded random weights, and
exports them with both of torch's exporters: `torchscript` is `dynamo=False`, which ends at opset 20, `dynamo` is
`dynamo=True`, and *not optimised* adds `optimize=False`, which leaves BatchNormalization, local functions and much
else in place. The opsets are those from 9 on that torch exports the network to in valid ONNX. Batches, lengths and
images have dynamic sizes except where the name says otherwise, and each model runs on at least two; the decoders also
on one token with a cache, and without a cache. Errors are the greatest over all opsets, native and generic kernels.

"""
TAIL = """
To run them again, which takes about ten minutes on two cores (the extra `test` leaves torch out):

```sh
python -m pip install -e ".[test,torch]"
python -m tests.models.torch_exports
python -m tests.models.torch_exports --only GPT --opsets 17-23
```

`--time` times some of them in common sizes beside ONNX Runtime, and shows how far apart their outputs lie.
"""


def text(results: Sequence[Result], wheels: Mapping[str, tuple[int, float]]) -> str:
    """The page.

    Args:
        results: of all cases, exporters and opsets.
        wheels: opset and error of each model of the manifest.
    """
    versions = ", ".join(f"{package} {metadata.version(package).partition('+')[0]}" for package in PACKAGES)
    return (
        HEAD.format(command=COMMAND, versions=versions)
        + _table(("model", "package", "licence", "opset", "sizes", "error"), _wheel_rows(wheels), right=(3, 5))
        + MIDDLE
        + _table(
            ("model", "exporter", "opsets", "with", "to torch", "to ONNX Runtime", "ONNX Runtime to torch"),
            _export_rows(results),
            right=(4, 5, 6),
        )
        + TAIL
    )


def ranges(numbers: Iterable[int]) -> str:
    """``9-11, 13``."""
    parts = []
    for _, group in groupby(enumerate(sorted(numbers)), lambda pair: pair[1] - pair[0]):
        run = [number for _, number in group]
        parts.append(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]))
    return ", ".join(parts)


def _wheel_rows(wheels: Mapping[str, tuple[int, float]]) -> list[list[str]]:
    rows = []
    for name, model in manifest().items():
        opset, off = wheels[name]
        sizes = ", ".join(" x ".join(map(str, size)) for size in model.sizes)
        rows.append([name, f"{model.package} {model.version}", model.licence, str(opset), sizes, f"{off:.0e}"])
    return rows


def _export_rows(results: Sequence[Result]) -> list[list[str]]:
    holds = {case.name: case.holds for case in CASES}
    rows = []
    for (name, exporter), group in groupby(results, lambda result: (result.case, result.exporter)):
        made = list(group)
        ours = ("native", "generic")
        errors = [
            max(result.errors[key] for result in made for key in keys)
            for keys in (ours, [f"{kernels}, ONNX Runtime" for kernels in ours], ["ONNX Runtime"])
        ]
        operators = ", ".join(holds[name].get(exporter, ()))
        opsets = ranges(result.opset for result in made)
        rows.append([name, exporter, opsets, operators, *(f"{off:.0e}" for off in errors)])
    return rows


def _table(header: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[int]) -> str:
    rule = ["---:" if index in right else "---" for index in range(len(header))]
    return "".join("| " + " | ".join(line) + " |\n" for line in (header, rule, *rows))
