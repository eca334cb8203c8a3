/* The functions that are proven, as formulas of C's mathematical functions. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#define BLOCK 1024

enum {
    EXP, EXP2, EXPM1, COSH, SINH, SIGMOID, SILU, MISH, GELU_TANH, LOG, LOG2, LOG10, LOG1P, ASINH, ACOSH, ATANH,
    SIN, COS, TAN, ATAN, ASIN, ACOS, TANH, ERF, GELU, SOFTPLUS, RSQRT
};

#define RATE 1.59576912160573071175978423973752L /* 2 sqrt(2 / pi) */
#define ROOT_HALF 0.707106781186547524400844362104849039L

#define COMPUTE(name, real, f) \
static inline real name(int function, real x) \
{ \
    real e; \
    switch (function) { \
    case EXP: return f(exp)(x); \
    case EXP2: return f(exp2)(x); \
    case EXPM1: return f(expm1)(x); \
    case COSH: return f(cosh)(x); \
    case SINH: return f(sinh)(x); \
    case SIGMOID: return 1 / (1 + f(exp)(-x)); \
    case SILU: return x / (1 + f(exp)(-x)); \
    case MISH: e = f(exp)(x < 60 ? x : 60); e = e * (e + 2); return x * (e / (e + 2)); \
    case GELU_TANH: return x / (1 + f(exp)(-(real)RATE * (x + (real)0.044715L * x * x * x))); \
    case LOG: return f(log)(x); \
    case LOG2: return f(log2)(x); \
    case LOG10: return f(log10)(x); \
    case LOG1P: return f(log1p)(x); \
    case ASINH: return f(asinh)(x); \
    case ACOSH: return f(acosh)(x); \
    case ATANH: return f(atanh)(x); \
    case SIN: return f(sin)(x); \
    case COS: return f(cos)(x); \
    case TAN: return f(tan)(x); \
    case ATAN: return f(atan)(x); \
    case ASIN: return f(asin)(x); \
    case ACOS: return f(acos)(x); \
    case TANH: return f(tanh)(x); \
    case ERF: return f(erf)(x); \
    case GELU: return x / 2 * f(erfc)(-x * (real)ROOT_HALF); \
    case SOFTPLUS: return (x > 0 ? x : 0) + f(log1p)(f(exp)(-f(fabs)(x))); \
    case RSQRT: return 1 / f(sqrt)(x); \
    } \
    return NAN; \
}

void values(int function, const float *x, double *out);
