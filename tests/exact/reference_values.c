/* Values in double, block by block, by glibc's vector functions: errors below 4 units in the last place.

   Compiled with -ffast-math, without which GCC does not call them; nothing else of the proof is. */
#include "reference.h"

#define SAME(name) name
COMPUTE(compute, double, SAME)

#define CASE(f) case f: for (int i = 0; i < BLOCK; i++) out[i] = compute(f, x[i]); break;

void values(int function, const float *x, double *out)
{
    switch (function) {
    CASE(EXP) CASE(EXP2) CASE(EXPM1) CASE(COSH) CASE(SINH) CASE(SIGMOID) CASE(SILU) CASE(MISH) CASE(GELU_TANH)
    CASE(LOG) CASE(LOG2) CASE(LOG10) CASE(LOG1P) CASE(ASINH) CASE(ACOSH) CASE(ATANH)
    CASE(SIN) CASE(COS) CASE(TAN) CASE(ATAN) CASE(ASIN) CASE(ACOS)
    CASE(TANH) CASE(ERF) CASE(GELU) CASE(SOFTPLUS) CASE(RSQRT)
    }
}
