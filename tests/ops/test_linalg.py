"""Matrix products, Einsum and determinants."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.ops.harness import arrays, check, like_onnxruntime, refused

RNG = np.random.default_rng(0)
NAN = np.float32("nan")


def f32(values: Any) -> np.ndarray[Any, Any]:
    return np.array(values, np.float32)


class TestMatMul:
    @pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "uint32", "uint64"])
    @pytest.mark.parametrize(
        ("a", "b"),
        [
            ((2, 3), (3, 4)),
            ((3,), (3,)),
            ((3,), (3, 4)),
            ((2, 3), (3,)),
            ((5, 2, 3), (3, 4)),
            ((2, 5, 2, 3), (3, 4)),
            ((5, 2, 3), (5, 3, 1)),
            ((2, 1, 2, 3), (5, 3, 4)),
            ((2, 3), (5, 3, 4)),
            ((0, 3), (3, 4)),
            ((2, 0), (0, 4)),
            ((0, 2, 3), (3, 4)),
            ((4, 2, 3), (3,)),
        ],
    )
    def test_follows_numpy(self, dtype: str, a: tuple[int, ...], b: tuple[int, ...]) -> None:
        x, y = arrays(RNG, a, b, dtype=dtype)
        wide = np.float64 if dtype.startswith("float") else dtype
        check(np.asarray(np.matmul(x.astype(wide), y.astype(wide))).astype(dtype), "MatMul", x, y)

    def test_integers_wrap(self) -> None:
        big = np.array([[2**31 - 1, 1]], np.int32)
        check(np.array([[-(2**31)]], np.int32), "MatMul", big, np.array([[1], [1]], np.int32))
        large = np.array([[2**53 + 1]])
        check(large, "MatMul", large, np.array([[1]]))

    @pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
    def test_half_sums_are_rounded_once(self, dtype: Any) -> None:
        # One after the other, the ones would be lost beside the large number.
        large = 2048 if dtype is np.float16 else 256
        row = np.array([[large, *[1] * 6]], dtype)
        check(np.array([[large + 6]], dtype), "MatMul", row, np.ones((7, 1), dtype), opset=13)

    def test_nan_and_infinity_stay_in_their_row(self) -> None:
        x = f32([[1, NAN], [np.inf, 1], [1, 2]])
        check(f32([[NAN], [np.inf], [3]]), "MatMul", x, f32([[1], [1]]))

    @pytest.mark.parametrize(
        ("a", "b"), [((2, 3), (4, 3)), ((3,), (4,)), ((), (3,)), ((2, 3), ()), ((2, 2, 3), (4, 5))]
    )
    def test_wrong_shapes_are_refused(self, a: tuple[int, ...], b: tuple[int, ...]) -> None:
        refused("do not multiply", "MatMul", np.ones(a, np.float32), np.ones(b, np.float32))

    def test_stacks_that_do_not_broadcast_are_refused(self) -> None:
        refused("broadcast", "MatMul", np.ones((2, 2, 3), np.float32), np.ones((4, 3, 2), np.float32))


class TestGemm:
    @pytest.mark.parametrize("c", [(2, 4), (4,), (1, 4), (2, 1), (1,), (1, 1), ()])
    @pytest.mark.parametrize(("turn_a", "turn_b"), [(0, 0), (1, 0), (0, 1), (1, 1)])
    def test_like_onnxruntime(self, c: tuple[int, ...], turn_a: int, turn_b: int) -> None:
        a, b, c_ = arrays(RNG, (3, 2) if turn_a else (2, 3), (4, 3) if turn_b else (3, 4), c)
        like_onnxruntime("Gemm", a, b, c_, transA=turn_a, transB=turn_b, alpha=0.5, beta=2.0)
        like_onnxruntime("Gemm", a, b, c_, transA=turn_a, transB=turn_b, opset=7)

    def test_without_c(self) -> None:
        a, b = arrays(RNG, (2, 3), (3, 4))
        check(2 * (a @ b), "Gemm", a, b, alpha=2.0, opset=11)

    @pytest.mark.parametrize("dtype", ["int32", "int64", "uint32", "uint64", "float64"])
    def test_types(self, dtype: str) -> None:
        a, b, c = arrays(RNG, (2, 3), (3, 4), (4,), dtype=dtype)
        check(a @ b * np.array(3, dtype) + np.array(2, dtype) * c, "Gemm", a, b, c, alpha=3.0, beta=2.0)

    def test_integers_take_whole_factors_only(self) -> None:
        a = np.ones((2, 2), np.int32)
        refused("whole numbers", "Gemm", a, a, alpha=0.5)
        refused("whole numbers", "Gemm", a, a, a, beta=1.5)

    def test_beta_0_does_not_read_c(self) -> None:
        a, b = arrays(RNG, (2, 3), (3, 4))
        check(a @ b, "Gemm", a, b, np.full(4, NAN), beta=0.0)

    def test_alpha_0_keeps_nan(self) -> None:
        check(f32([[NAN]]), "Gemm", f32([[NAN]]), f32([[1]]), f32([1]), alpha=0.0)

    def test_halves_are_rounded_once(self) -> None:
        # 1 + 2**-11 rounds to 1 in float16, so that adding in float16 would give 1.
        a = np.array([[1, 2**-11]], np.float16)
        check(np.array([[1 + 2**-10]], np.float16), "Gemm", a, np.ones((2, 1), np.float16), a[0, 1:], opset=13)

    def test_empty(self) -> None:
        check(f32([[1, 2, 3]] * 2), "Gemm", np.ones((2, 0), np.float32), np.ones((0, 3), np.float32), f32([1, 2, 3]))

    def test_opset_6_broadcasts_on_request(self) -> None:
        a, b, c = arrays(RNG, (2, 3), (3, 4), (4,))
        check(a @ b + c, "Gemm", a, b, c, opset=6, broadcast=1)
        check(a @ b + np.ones((2, 4), np.float32), "Gemm", a, b, np.ones((2, 4), np.float32), opset=6)
        refused("broadcast is 0", "Gemm", a, b, c, opset=6)
        refused("broadcast is 0", "Gemm", a.T, b.T, c, opset=6, transA=1, transB=1)

    @pytest.mark.parametrize(
        ("shapes", "message"),
        [
            (((2, 3), (4, 5), (5,)), "do not multiply"),
            (((2, 3, 1), (3, 5), (5,)), "must be matrices"),
            (((2, 3), (3, 4), (3, 4)), "does not broadcast"),
            (((1, 3), (3, 4), (2, 4)), "does not broadcast"),
            (((2, 3), (3, 4), (1, 2, 4)), "does not broadcast"),
        ],
    )
    def test_wrong_shapes_are_refused(self, shapes: tuple[tuple[int, ...], ...], message: str) -> None:
        refused(message, "Gemm", *(np.ones(shape, np.float32) for shape in shapes))


class TestEinsum:
    @pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "uint8"])
    @pytest.mark.parametrize(
        ("equation", "shapes"),
        [
            ("ij,jk->ik", [(2, 3), (3, 4)]),
            (" i j , j k -> k i ", [(2, 3), (3, 4)]),
            ("ij,jk", [(2, 3), (3, 4)]),
            ("ij->ji", [(2, 3)]),
            ("ij->", [(2, 3)]),
            ("ba", [(2, 3)]),
            ("Ba", [(2, 3)]),
            ("ii->i", [(3, 3)]),
            ("ii", [(3, 3)]),
            ("iji->j", [(3, 2, 3)]),
            ("iii->i", [(2, 2, 2)]),
            ("aAbB,bB->Aa", [(2, 3, 4, 5), (4, 5)]),
            ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)]),
            ("bhid,bhjd->bhij", [(2, 3, 4, 5), (2, 3, 6, 5)]),
            ("i,j->ij", [(2,), (3,)]),
            ("i,i->", [(3,), (3,)]),
            ("ij,ij->ij", [(2, 3), (2, 3)]),
            ("ij,ij->ij", [(2, 3), (1, 3)]),
            ("ij,ij->", [(2, 1), (1, 3)]),
            ("ij,jk->k", [(2, 3), (3, 4)]),
            ("ij,k->", [(2, 3), (4,)]),
            ("...j,j->...", [(2, 3, 4), (4,)]),
            ("...ij,...jk->...ik", [(2, 3, 4), (5, 1, 4, 2)]),
            ("a...,...a", [(3, 2), (4, 1, 3)]),
            ("...i->...", [(2, 3)]),
            ("...->...", [(2, 3)]),
            ("i...->...i", [(2, 3, 4)]),
            (",i->i", [(), (3,)]),
            ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)]),
            ("ij,jk,ik->i", [(2, 3), (3, 4), (2, 4)]),
            ("i,i,i->i", [(3,), (3,), (3,)]),
            ("ij,j...,...->i...", [(2, 3), (3, 4), (4,)]),
            ("ii,ij->j", [(3, 3), (3, 2)]),
            ("ij,jk->ik", [(2, 0), (0, 4)]),
            ("ij,jk->ik", [(0, 3), (3, 4)]),
            ("ij->i", [(2, 0)]),
        ],
    )
    def test_follows_numpy(self, dtype: str, equation: str, shapes: list[tuple[int, ...]]) -> None:
        operands = arrays(RNG, *shapes, dtype=dtype)
        wide = [x.astype(np.float64) if dtype == "float32" else x for x in operands]
        expected = np.asarray(np.einsum(equation.replace(" ", ""), *wide, dtype=wide[0].dtype)).astype(dtype)
        check(expected, "Einsum", *operands, equation=equation)

    def test_ellipsis_that_the_output_lacks_is_summed(self) -> None:
        check(f32([5, 7, 9]), "Einsum", f32([[1, 2, 3], [4, 5, 6]]), equation="...i->i")

    def test_axes_of_size_1_fit_any_size(self) -> None:
        check(f32([12, 15]), "Einsum", f32([[4, 5]]), f32([[1], [2]]), equation="ij,ik->j")

    @pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
    def test_half_sums_are_rounded_once(self, dtype: Any) -> None:
        large = 2048 if dtype is np.float16 else 256
        x = np.array([large, *[1] * 6], dtype)
        check(np.array(large + 6, dtype), "Einsum", x, np.ones(7, dtype), equation="i,i")

    @pytest.mark.parametrize(
        ("equation", "shapes", "message"),
        [
            ("ij,jk->ik", [(2, 3)], "has 2 operands; 1 are given"),
            ("ij", [(2, 3, 4)], "does not label 3 axes"),
            ("ij...", [(2,)], "does not label 1 axes"),
            ("ij->ii", [(2, 3)], "repeats a label"),
            ("ij->ik", [(2, 3)], "no operand has"),
            ("ij,ij", [(2, 3), (2, 2)], "stands for sizes 3 and 2"),
            ("ii", [(2, 3)], "of sizes 2 and 3"),
            ("ij,jk", [(2, 3), (2, 4)], "stands for sizes 3 and 2"),
            ("i1->i", [(2, 3)], "may hold letters"),
            ("i......j", [(2, 3)], "may hold letters"),
            ("ij->i->j", [(2, 3)], "may hold letters"),
        ],
    )
    def test_wrong_equations_are_refused(self, equation: str, shapes: list[tuple[int, ...]], message: str) -> None:
        refused(message, "Einsum", *arrays(RNG, *shapes), equation=equation)


class TestDet:
    def test_values(self) -> None:
        check(np.float32(-2).reshape(()), "Det", f32([[1, 2], [3, 4]]))
        check(f32([[1, -6]]), "Det", f32([[[[1, 5], [0, 1]], [[0, 2], [3, 1]]]]))
        check(np.ones(2), "Det", np.ones((2, 0, 0)))
        check(np.ones((0, 3)), "Det", np.ones((0, 3, 2, 2)))
        check(f32(0).reshape(()), "Det", f32([[1, 2], [2, 4]]))

    def test_like_onnxruntime(self) -> None:
        like_onnxruntime("Det", *arrays(RNG, (2, 3, 4, 4)), opset=11)

    def test_bfloat16(self) -> None:
        check(np.array(-2, ml_dtypes.bfloat16), "Det", np.array([[1, 2], [3, 4]], ml_dtypes.bfloat16))

    @pytest.mark.parametrize("shape", [(3,), (2, 3), ()])
    def test_what_is_not_square_is_refused(self, shape: tuple[int, ...]) -> None:
        refused("square matrices", "Det", np.ones(shape, np.float32))
