// What all kernels share: element types, their conversion to the type that sums are made in, sums over a block.
// Kernels keep to a subset that also runs on the CPU (tests/gpu/cuda_shim.h): no warp shuffles, no tensor cores.

typedef long long index_t;

// Half types as their bits, so that no header is needed.
struct float16 { unsigned short bits; };
struct bfloat16 { unsigned short bits; };

template <class T> struct Wide { typedef float type; };
template <> struct Wide<double> { typedef double type; };

__device__ inline float widen(float x) { return x; }
__device__ inline double widen(double x) { return x; }
__device__ inline float widen(bfloat16 x) { return __uint_as_float((unsigned)x.bits << 16); }

__device__ inline float widen(float16 x) {
#ifdef ONEMODEL_ON_CPU
  _Float16 half;
  memcpy(&half, &x.bits, 2);
  return (float)half;
#else
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(x.bits));
  return result;
#endif
}

template <class T> __device__ inline T narrow(float x);
template <> __device__ inline float narrow<float>(float x) { return x; }

template <> __device__ inline float16 narrow<float16>(float x) {
  float16 result;
#ifdef ONEMODEL_ON_CPU
  const _Float16 half = (_Float16)x;
  memcpy(&result.bits, &half, 2);
#else
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(x));
#endif
  return result;
}

// Half to even, in integers.
template <> __device__ inline bfloat16 narrow<bfloat16>(float x) {
  const unsigned bits = __float_as_uint(x);
  bfloat16 result;
  if ((bits & 0x7fffffffu) > 0x7f800000u) {
    result.bits = (unsigned short)(bits >> 16 | 0x40u);
  } else {
    result.bits = (unsigned short)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
  }
  return result;
}

template <class T> __device__ inline T narrow(double x);
template <> __device__ inline double narrow<double>(double x) { return x; }

struct Sum {
  template <class T> __device__ T operator()(T a, T b) const { return a + b; }
};

// The larger one, NaN if there is one.
struct Largest {
  template <class T> __device__ T operator()(T a, T b) const { return a > b || a != a ? a : b; }
};

struct Smallest {
  template <class T> __device__ T operator()(T a, T b) const { return a < b || a != a ? a : b; }
};

// `function` over the block's values, in one fixed order. The block has a power of two of threads, at most BLOCK.
#define BLOCK 256

template <class T, class F> __device__ inline T over_block(T value, F function) {
  __shared__ T shared[BLOCK];
  const unsigned thread = threadIdx.x;
  shared[thread] = value;
  __syncthreads();
  for (unsigned step = blockDim.x / 2; step; step /= 2) {
    if (thread < step) shared[thread] = function(shared[thread], shared[thread + step]);
    __syncthreads();
  }
  const T result = shared[0];
  __syncthreads();
  return result;
}

template <class T> __device__ inline T infinity();
template <> __device__ inline float infinity<float>() { return __int_as_float(0x7f800000); }
template <> __device__ inline double infinity<double>() { return __longlong_as_double(0x7ff0000000000000ll); }
