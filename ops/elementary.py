"""Elementary functions: exponential, logarithm, error function, trigonometric and hyperbolic functions."""

from __future__ import annotations

from onemodel.ops.registry import operator


@operator("Exp", since=6, elementwise=True, widen="fast")
def exponential(x, /, *, xp):
    """e to the power x."""
    return xp.exp(x)


@operator("Log", since=6, elementwise=True, widen="fast")
def logarithm(x, /, *, xp):
    """The natural logarithm: -infinity at zero, NaN below."""
    return xp.log(x)


@operator("Erf", since=9, elementwise=True, widen="fast")
def error_function(x, /, *, xp):
    """2 / sqrt(pi) times the integral of exp(-t**2) from 0 to x; integers come out as the truncated value."""
    if xp.isdtype(x.dtype, "integral"):
        # In float64, which decides here, erf rounds to 1 from 6 on.
        return xp.sign(x) * xp.astype(xp.abs(x) > 5, x.dtype)
    return xp.erf(x)


@operator("Sin", since=7, elementwise=True, widen="fast")
def sine(x, /, *, xp):
    """Sine of x radians; NaN at infinities."""
    return xp.sin(x)


@operator("Cos", since=7, elementwise=True, widen="fast")
def cosine(x, /, *, xp):
    """Cosine of x radians; NaN at infinities."""
    return xp.cos(x)


@operator("Tan", since=7, elementwise=True, widen="fast")
def tangent(x, /, *, xp):
    """Tangent of x radians; NaN at infinities."""
    return xp.tan(x)


@operator("Asin", since=7, elementwise=True, widen="fast")
def arc_sine(x, /, *, xp):
    """The angle in [-pi/2, pi/2] with this sine; NaN outside [-1, 1]."""
    return xp.asin(x)


@operator("Acos", since=7, elementwise=True, widen="fast")
def arc_cosine(x, /, *, xp):
    """The angle in [0, pi] with this cosine; NaN outside [-1, 1]."""
    return xp.acos(x)


@operator("Atan", since=7, elementwise=True, widen="fast")
def arc_tangent(x, /, *, xp):
    """The angle in [-pi/2, pi/2] with this tangent."""
    return xp.atan(x)


@operator("Sinh", since=9, elementwise=True, widen="fast")
def hyperbolic_sine(x, /, *, xp):
    """(exp(x) - exp(-x)) / 2."""
    return xp.sinh(x)


@operator("Cosh", since=9, elementwise=True, widen="fast")
def hyperbolic_cosine(x, /, *, xp):
    """(exp(x) + exp(-x)) / 2."""
    return xp.cosh(x)


@operator("Tanh", since=6, elementwise=True, widen="fast")
def hyperbolic_tangent(x, /, *, xp):
    """sinh(x) / cosh(x)."""
    return xp.tanh(x)


@operator("Asinh", since=9, elementwise=True, widen="fast")
def inverse_hyperbolic_sine(x, /, *, xp):
    """log(x + sqrt(x**2 + 1))."""
    return xp.asinh(x)


@operator("Acosh", since=9, elementwise=True, widen="fast")
def inverse_hyperbolic_cosine(x, /, *, xp):
    """log(x + sqrt(x**2 - 1)); NaN below 1."""
    return xp.acosh(x)


@operator("Atanh", since=9, elementwise=True, widen="fast")
def inverse_hyperbolic_tangent(x, /, *, xp):
    """log((1 + x) / (1 - x)) / 2; infinite at 1 and -1, NaN outside."""
    return xp.atanh(x)
