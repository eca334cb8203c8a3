"""The shipped model reads held-out digits; the drawing shows them."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnx
import pytest

import onemodel
from onemodel import demo


def test_the_model_is_small_valid_and_takes_any_batch() -> None:
    content = demo.model_bytes()
    assert len(content) < 200_000
    model = onnx.load_from_string(content)
    onnx.checker.check_model(model, full_check=True)
    session = onemodel.Session(content, mode="fast")
    assert [(i.name, i.type, i.shape) for i in session.get_inputs()] == [("image", "tensor(float)", ("batch", 1, 8, 8))]
    assert [(o.name, o.shape) for o in session.get_outputs()] == [("probabilities", ("batch", 10))]


def test_the_held_out_digits_are_two_of_each_class() -> None:
    images, labels = demo.held_out()
    assert images.shape == (20, 8, 8)
    assert images.dtype == np.uint8
    assert images.max() <= demo.INK
    assert sorted(labels.tolist()) == sorted([*range(10)] * demo.SAMPLES)
    assert len({image.tobytes() for image in images}) == 20


def test_the_network_reads_held_out_digits() -> None:
    images, labels = demo.held_out()
    session = onemodel.Session(demo.model_bytes(), mode="fast")
    batch = np.concatenate([demo.as_input(image) for image in images])
    (probabilities,) = session.run(None, {"image": batch})
    assert probabilities.shape == (20, 10)
    assert probabilities.dtype == np.float32
    np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-5)
    assert (probabilities.argmax(1) == labels).mean() >= 0.95


def test_it_is_onnx_runtimes_answer() -> None:
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is the oracle")
    images, _ = demo.held_out()
    batch = np.concatenate([demo.as_input(image) for image in images])
    (expected,) = runtime.InferenceSession(demo.model_bytes()).run(None, {"image": batch})
    (got,) = onemodel.Session(demo.model_bytes(), mode="fast").run(None, {"image": batch})
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-6)


def test_two_digits_give_two_outputs() -> None:
    seven, three = demo.read(7), demo.read(3)
    assert (seven.label, seven.answer) == (7, 7)
    assert (three.label, three.answer) == (3, 3)
    assert not np.array_equal(seven.image, three.image)
    assert np.abs(seven.probabilities - three.probabilities).max() > 0.5
    assert not np.array_equal(demo.read(7, 1).image, seven.image)
    assert seven.seconds > 0
    assert (seven.mode, seven.backend) == ("fast", "numpy")


def test_the_drawing_has_two_characters_a_pixel() -> None:
    image = np.zeros((8, 8), np.uint8)
    image[2, 3] = demo.INK
    image[7, 7] = demo.INK // 2
    lines = demo.drawing(image).split("\n")
    assert [len(line) for line in lines] == [16] * 8
    assert lines[2] == " " * 6 + "██" + " " * 8
    assert lines[7] == " " * 14 + "▒▒"
    plain = demo.drawing(image, unicode=False).split("\n")
    assert plain[2] == " " * 6 + "@@" + " " * 8
    assert all(line.isascii() for line in plain)


@pytest.mark.parametrize(
    ("share", "unicode", "text"),
    [(0, True, ""), (1, True, "█" * 10), (0.55, True, "█████▌"), (0.001, True, ""), (0.55, False, "######")],
)
def test_bars(share: float, unicode: bool, text: str) -> None:
    assert demo.bar(share, 10, unicode=unicode) == text


@pytest.mark.skipif(find_spec("sklearn") is None, reason="scikit-learn has the training data")
def test_the_shipped_digits_are_of_the_held_out_part() -> None:
    """The script's split gives them, and none is among the digits that it trains on."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    script = Path(__file__).parents[1] / "bench" / "train_digits.py"
    assert "test_size=0.2, random_state=SEED, stratify=labels" in script.read_text("utf-8")
    images, labels = load_digits(return_X_y=True)
    trained, held_out, _, held_out_labels = train_test_split(
        images, labels, test_size=0.2, random_state=0, stratify=labels
    )
    shipped = np.concatenate([np.flatnonzero(held_out_labels == c)[: demo.SAMPLES] for c in range(10)])
    shipped_images, shipped_labels = demo.held_out()
    assert np.array_equal(held_out[shipped].reshape(-1, 8, 8), shipped_images)
    assert np.array_equal(held_out_labels[shipped], shipped_labels)
    assert not {image.astype(np.uint8).tobytes() for image in trained} & {image.tobytes() for image in shipped_images}
