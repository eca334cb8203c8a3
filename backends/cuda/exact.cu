// Single operations of exact mode: each is one operation of IEEE 754, rounded once, or an operation on bits.
// Compiled without flushing subnormal numbers and without contraction (cupy_exact_launch.py).

enum Operation {
  ADD, SUBTRACT, MULTIPLY, DIVIDE, MAXIMUM, MINIMUM, COPYSIGN,
  EQUAL, NOT_EQUAL, LESS, LESS_EQUAL, GREATER, GREATER_EQUAL,
  NEGATIVE, ABS, SQRT, CEIL, FLOOR, TRUNC, ROUND, SIGN, SQUARE, RECIPROCAL,
  ISNAN, ISINF, ISFINITE, SIGNBIT
};

enum Type {
  BOOL, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, FLOAT16, BFLOAT16, FLOAT32, FLOAT64
};

#define EACH_ELEMENT(i, count)                                                            \
  for (index_t i = (index_t)blockIdx.x * blockDim.x + threadIdx.x; i < count;             \
       i += (index_t)gridDim.x * blockDim.x)

// Where element i of the result finds its operand: every `step` elements the next of `size`; 0 for one to each.
__device__ inline index_t place(index_t i, index_t step, index_t size) { return size ? i / step % size : i; }

template <class W> __device__ inline W computed(int operation, W a, W b) {
  switch (operation) {
    case ADD: return a + b;
    case SUBTRACT: return a - b;
    case MULTIPLY: return a * b;
    case DIVIDE: return a / b;
    case MAXIMUM: return a > b || a != a ? a : b;
    case MINIMUM: return a < b || a != a ? a : b;
    case COPYSIGN: return copysign(a, b);
    case NEGATIVE: return -a;
    case ABS: return fabs(a);
    case SQRT: return sqrt(a);
    case CEIL: return ceil(a);
    case FLOOR: return floor(a);
    case TRUNC: return trunc(a);
    case ROUND: return rint(a);
    case SIGN: return a > 0 ? (W)1 : a < 0 ? (W)-1 : a == 0 ? (W)0 : a;
    case SQUARE: return a * a;
    default: return (W)1 / a;  // RECIPROCAL
  }
}

template <class W> __device__ inline bool compared(int operation, W a, W b) {
  switch (operation) {
    case EQUAL: return a == b;
    case NOT_EQUAL: return a != b;
    case LESS: return a < b;
    case LESS_EQUAL: return a <= b;
    case GREATER: return a > b;
    case GREATER_EQUAL: return a >= b;
    case ISNAN: return a != a;
    case ISINF: return fabs(a) == infinity<W>();
    case ISFINITE: return fabs(a) < infinity<W>();
    default: return copysign((W)1, a) < 0;  // SIGNBIT
  }
}

template <class R> struct Result {  // R is a type of floats
  template <class W> static __device__ R of(int operation, W a, W b) { return narrow<R>(computed(operation, a, b)); }
};
template <> struct Result<bool> {
  template <class W> static __device__ bool of(int operation, W a, W b) { return compared(operation, a, b); }
};

// One operand, or two that are broadcast; b is null for one. R is T, or bool for what compares.
template <class T, class R>
__global__ void operate(int operation, const T* a, index_t a_step, index_t a_size, const T* b, index_t b_step,
                        index_t b_size, R* y, index_t count) {
  EACH_ELEMENT(i, count) {
    const typename Wide<T>::type left = widen(a[place(i, a_step, a_size)]);
    y[i] = Result<R>::of(operation, left, b ? widen(b[place(i, b_step, b_size)]) : left);
  }
}

// Conversions, each rounded once.

// As float rounded to odd: rounding that once more to a half type gives what one rounding of x gives.
__device__ inline float odd(double x) {
  const float nearest = (float)x;
  const double back = nearest;
  if (back == x || x != x) return nearest;
  int bits = __float_as_int(nearest);
  if (fabs(back) > fabs(x)) bits -= 1;
  return __int_as_float(bits | 1);
}

// As double rounded to odd, for integers beyond 2^53: their last bits matter only in whether one of them is set.
__device__ inline double odd_of(unsigned long long x) {
  return x >> 53 ? (double)(x >> 12 | ((x & 0xfff) != 0)) * 4096.0 : (double)x;
}

template <class A> struct From {  // integers and bool
  static __device__ double odd_double(A x) {
    return x < (A)0 ? -odd_of(0ull - (unsigned long long)x) : odd_of((unsigned long long)x);
  }
  static __device__ float single(A x) { return (float)x; }
  static __device__ double twice(A x) { return (double)x; }
  static __device__ float odd_single(A x) { return odd(odd_double(x)); }
};
template <> struct From<float> {
  static __device__ float single(float x) { return x; }
  static __device__ double twice(float x) { return x; }
  static __device__ float odd_single(float x) { return x; }
};
template <> struct From<double> {
  static __device__ float single(double x) { return (float)x; }
  static __device__ double twice(double x) { return x; }
  static __device__ float odd_single(double x) { return odd(x); }
};

// Truncated toward zero; beyond the range its nearest end, NaN 0.
template <class B, class A> struct Whole {
  static __device__ B of(A x) { return (B)x; }
};
template <class B> struct Whole<B, double> {
  static __device__ B of(double x) {
    const bool has_sign = (B)-1 < (B)0;
    const int bits = 8 * (int)sizeof(B) - has_sign;
    const double above = 2.0 * (double)(1ull << (bits - 1));
    const B most = (B)(~0ull >> (64 - bits));
    if (x != x) return 0;
    if (x >= above) return most;
    if (x < (has_sign ? -above : 0.0)) return has_sign ? (B)(-most - 1) : (B)0;
    return (B)x;
  }
};
template <class B> struct Whole<B, float> {
  static __device__ B of(float x) { return Whole<B, double>::of((double)x); }
};

template <class A> __device__ inline void converted(A x, int type, void* y, index_t i) {
  typedef From<A> F;
  switch (type) {
    case BOOL: ((bool*)y)[i] = x != (A)0; break;
    case INT8: ((signed char*)y)[i] = Whole<signed char, A>::of(x); break;
    case INT16: ((short*)y)[i] = Whole<short, A>::of(x); break;
    case INT32: ((int*)y)[i] = Whole<int, A>::of(x); break;
    case INT64: ((index_t*)y)[i] = Whole<index_t, A>::of(x); break;
    case UINT8: ((unsigned char*)y)[i] = Whole<unsigned char, A>::of(x); break;
    case UINT16: ((unsigned short*)y)[i] = Whole<unsigned short, A>::of(x); break;
    case UINT32: ((unsigned*)y)[i] = Whole<unsigned, A>::of(x); break;
    case UINT64: ((unsigned long long*)y)[i] = Whole<unsigned long long, A>::of(x); break;
    case FLOAT16: ((float16*)y)[i] = narrow<float16>(F::odd_single(x)); break;
    case BFLOAT16: ((bfloat16*)y)[i] = narrow<bfloat16>(F::odd_single(x)); break;
    case FLOAT32: ((float*)y)[i] = F::single(x); break;
    default: ((double*)y)[i] = F::twice(x);  // FLOAT64
  }
}

template <class A> __global__ void convert(const A* x, int type, void* y, index_t count) {
  EACH_ELEMENT(i, count) converted(x[i], type, y, i);
}
template <class A> __global__ void convert_half(const A* x, int type, void* y, index_t count) {
  EACH_ELEMENT(i, count) converted(widen(x[i]), type, y, i);
}

// Integers in the order of the numbers: the two zeros are one, NaN is the last.
template <class T> struct Keys;
template <> struct Keys<float> {
  typedef int K;
  static __device__ K bits(float x) { return __float_as_int(x); }
  static __device__ float number(K k) { return __int_as_float(k); }
  static const K sign = -0x7fffffff - 1, nan = 0x7fc00000, limit = 0x7f800000;
};
template <> struct Keys<double> {
  typedef index_t K;
  static __device__ K bits(double x) { return __double_as_longlong(x); }
  static __device__ double number(K k) { return __longlong_as_double(k); }
  static const K sign = (K)(1ull << 63), nan = 0x7ff8000000000000ll, limit = 0x7ff0000000000000ll;
};
template <> struct Keys<float16> {
  typedef int K;
  static __device__ K bits(float16 x) { return x.bits; }
  static __device__ float16 number(K k) { return float16{(unsigned short)k}; }
  static const K sign = 0x8000, nan = 0x7e00, limit = 0x7c00;
};
template <> struct Keys<bfloat16> {
  typedef int K;
  static __device__ K bits(bfloat16 x) { return x.bits; }
  static __device__ bfloat16 number(K k) { return bfloat16{(unsigned short)k}; }
  static const K sign = 0x8000, nan = 0x7fc0, limit = 0x7f80;
};

template <class T> __global__ void to_keys(const T* x, typename Keys<T>::K* y, index_t count) {
  typedef Keys<T> N;
  EACH_ELEMENT(i, count) {
    const typename N::K bits = N::bits(x[i]), size = bits & ~N::sign;
    y[i] = size > N::limit ? N::nan : bits & N::sign ? -size : size;
  }
}
template <class T> __global__ void from_keys(const typename Keys<T>::K* x, T* y, index_t count) {
  typedef Keys<T> N;
  EACH_ELEMENT(i, count) y[i] = N::number(x[i] < 0 ? -x[i] | N::sign : x[i]);
}
