/* Compares float32 results with double and long double values: the part of prove.py that sees all inputs. */
#include "reference.h"

#define LONG(name) name##l
COMPUTE(compute_long, long double, LONG)

/* What is certain of f(x) without computing it: 1 and the value, which is NaN outside the domain, or 0. */
static int certain(int function, float x, long double *value)
{
    float size = fabsf(x);
    int outside = isnan(x);
    switch (function) {
    case LOG: case LOG2: case LOG10: case RSQRT: outside |= x < 0; break;
    case LOG1P: outside |= x < -1; break;
    case ACOSH: outside |= x < 1; break;
    case ASIN: case ACOS: case ATANH: outside |= size > 1; break;
    case SIN: case COS: case TAN: outside |= isinf(x); break;
    case SILU: case MISH: case GELU: case GELU_TANH: outside |= x == -INFINITY; break; /* infinity times 0 */
    }
    if (outside) { *value = NAN; return 1; }
    switch (function) {
    case EXP: case EXP2: case COSH: case COS:
        if (size < 0x1p-26f) { *value = 1; return 1; }
        break;
    case SIGMOID:
        if (size < 0x1p-26f) { *value = 0.5L; return 1; }
        break;
    case SINH: case TANH: case ASINH: case ATANH: case SIN: case TAN: case ASIN: case ATAN:
        /* |f(x) - x| <= |x|**3 / 2: less than a quarter of a unit in the last place. */
        if (size < 0x1p-13f) { *value = x; return 1; }
        break;
    case EXPM1: case LOG1P:
        if (size < 0x1p-27f) { *value = x; return 1; }
        break;
    case SILU: case GELU: case GELU_TANH:
        /* x / 2 and less than a quarter of a unit more; the more decides ties, which only subnormal results have. */
        if (size < 0x1p-120f && x != 0) { *value = (long double)x / 2 + 0x1p-180L; return 1; }
        break;
    }
    switch (function) {
    case EXP: case EXP2: case SIGMOID: case SILU: case MISH: case GELU: case GELU_TANH: case SOFTPLUS:
        if (x < -1024) { *value = function == SILU || function == MISH || function == GELU || function == GELU_TANH ? -0.0L : 0; return 1; }
        if (x > 1024) {
            *value = function == SIGMOID ? 1 : function == EXP || function == EXP2 ? INFINITY : (long double)x;
            return 1;
        }
        break;
    case EXPM1:
        if (x < -1024) { *value = -1; return 1; }
        if (x > 1024) { *value = INFINITY; return 1; }
        break;
    case TANH: case ERF:
        if (size > 16) { *value = copysignl(1, x); return 1; }
        break;
    case SINH: case COSH:
        if (size > 1024) { *value = function == SINH ? copysignl(INFINITY, x) : INFINITY; return 1; }
        break;
    }
    return 0;
}

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return bits;
}

struct findings {
    uint32_t *hard, *wrong;
    int64_t room, *totals;
};

static void enter(struct findings *found, int kind, uint32_t bits)
{
    int64_t count = found->totals[kind]++;
    if (count < found->room) (kind ? found->wrong : found->hard)[count] = bits;
}

static void compare_one(int function, uint32_t bits, float result, double long_margin, struct findings *found)
{
    float x, low, high;
    long double exact;
    memcpy(&x, &bits, 4);
    if (certain(function, x, &exact)) {
        if (isnan(exact)) {
            if (!isnan(result)) enter(found, 1, bits);
            return;
        }
        low = high = (float)exact;
    } else {
        exact = compute_long(function, x);
        low = (float)(exact * (1 - (long double)long_margin));
        high = (float)(exact * (1 + (long double)long_margin));
    }
    if (isnan(low) || bits_of(low) != bits_of(high)) enter(found, 0, bits);
    else if (bits_of(result) != bits_of(low)) enter(found, 1, bits);
}

/* Compare results for the inputs with bits first, first + 1 ..., whose number is a multiple of 1,024. Where neither the
   double value nor the long double one decides, the input goes to hard; where the result is wrong, to wrong. Each keeps
   at most room entries. The margins are relative. */
void compare(int function, uint32_t first, int64_t count, const float *results, double margin, double long_margin,
             uint32_t *hard, uint32_t *wrong, int64_t room, int64_t *totals)
{
    struct findings found = {hard, wrong, room, totals};
    static float x[BLOCK];
    static double value[BLOCK];
    for (int64_t start = 0; start < count; start += BLOCK) {
        const float *result = results + start;
        uint32_t bits = first + (uint32_t)start;
        long double exact;
        for (int i = 0; i < BLOCK; i++) {
            uint32_t each = bits + i;
            memcpy(&x[i], &each, 4);
        }
        int agree = 0;
        if (!(certain(function, x[0], &exact) && certain(function, x[BLOCK - 1], &exact))) {
            values(function, x, value);
            for (int i = 0; i < BLOCK; i++) {
                float low = (float)(value[i] * (1 - margin)), high = (float)(value[i] * (1 + margin));
                uint32_t low_bits, high_bits, result_bits;
                memcpy(&low_bits, &low, 4);
                memcpy(&high_bits, &high, 4);
                memcpy(&result_bits, &result[i], 4);
                agree += (low_bits == high_bits) & (low_bits == result_bits);
            }
        }
        if (agree == BLOCK) continue;
        for (int i = 0; i < BLOCK; i++) {
            float low = (float)(value[i] * (1 - margin)), high = (float)(value[i] * (1 + margin));
            if (!agree || bits_of(low) != bits_of(high) || bits_of(low) != bits_of(result[i]))
                compare_one(function, bits + i, result[i], long_margin, &found);
        }
    }
}
