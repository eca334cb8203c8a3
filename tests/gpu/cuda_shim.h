// Runs the subset of CUDA C++ that our kernels keep to on the CPU, thread by thread. For g++, by -include.
// Outside the subset: warp shuffles, tensor cores, inline assembly, atomics on shared memory between fibers.
#pragma once
#include <cassert>
#include <math.h>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>
#include <ucontext.h>

#define ONEMODEL_ON_CPU 1
#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __shared__ static  // one block runs at a time, so a static is what its threads share
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __restrict__ __restrict

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};

static dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace shim {

// A thread of a block that has barriers: it keeps its own stack, and yields at each barrier.
struct Fiber {
  ucontext_t context;
  dim3 place;
  bool done;
  std::unique_ptr<char[]> stack;
};

static constexpr size_t stack_bytes = 1 << 17;
static ucontext_t scheduler;
static Fiber* current = nullptr;
static char* dynamic_shared = nullptr;

static void barrier() {
  assert(current && "a kernel with a barrier runs without fibers");
  swapcontext(&current->context, &scheduler);
}

template <class Thread>
struct Entry {
  static Thread* thread;
  static void run() {
    (*thread)();
    current->done = true;
    swapcontext(&current->context, &scheduler);
  }
};
template <class Thread>
Thread* Entry<Thread>::thread = nullptr;

template <class Thread>
void run_block(Thread& thread, bool fibers) {
  const unsigned count = blockDim.x * blockDim.y * blockDim.z;
  auto place = [](unsigned i) {
    return dim3(i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y);
  };
  if (!fibers) {
    for (unsigned i = 0; i < count; i++) {
      threadIdx = place(i);
      thread();
    }
    return;
  }
  static std::vector<Fiber> all;
  if (all.size() < count) all.resize(count);
  Entry<Thread>::thread = &thread;
  for (unsigned i = 0; i < count; i++) {
    Fiber& fiber = all[i];
    if (!fiber.stack) fiber.stack.reset(new char[stack_bytes]);
    fiber.place = place(i);
    fiber.done = false;
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = stack_bytes;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, Entry<Thread>::run, 0);
  }
  for (unsigned alive = count; alive;) {
    alive = 0;
    for (unsigned i = 0; i < count; i++) {
      if (all[i].done) continue;
      current = &all[i];
      threadIdx = current->place;
      swapcontext(&scheduler, &current->context);
      alive += !current->done;
    }
  }
  current = nullptr;
}

template <class... A, size_t... I>
void launch(void (*kernel)(A...), void** arguments, std::index_sequence<I...>, dim3 grid, dim3 block, size_t shared,
            bool fibers, bool backwards) {
  gridDim = grid;
  blockDim = block;
  std::vector<char> bytes(shared + 16);
  dynamic_shared = bytes.data();
  auto thread = [&] { kernel(*(std::remove_reference_t<A>*)arguments[I]...); };
  const unsigned long long count = 1ull * grid.x * grid.y * grid.z;
  for (unsigned long long n = 0; n < count; n++) {
    const unsigned long long i = backwards ? count - 1 - n : n;  // a GPU promises no order of blocks
    blockIdx = dim3(i % grid.x, i / grid.x % grid.y, i / grid.x / grid.y);
    run_block(thread, fibers);
  }
}

template <class... A>
void launch(void (*kernel)(A...), void** arguments, dim3 grid, dim3 block, size_t shared, bool fibers, bool backwards) {
  launch(kernel, arguments, std::index_sequence_for<A...>{}, grid, block, shared, fibers, backwards);
}

}  // namespace shim

#define SHIM_LAUNCHER(symbol, ...)                                                                             \
  extern "C" void symbol(void** arguments, const unsigned* d, size_t shared, int fibers, int backwards) {      \
    shim::launch(__VA_ARGS__, arguments, dim3(d[0], d[1], d[2]), dim3(d[3], d[4], d[5]), shared, fibers != 0, \
                 backwards != 0);                                                                              \
  }

static inline void __syncthreads() { shim::barrier(); }
// Arithmetic whose rounding CUDA defines is the same on the CPU.
static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
static inline unsigned __float_as_uint(float f) { unsigned u; memcpy(&u, &f, 4); return u; }
static inline float __uint_as_float(unsigned u) { float f; memcpy(&f, &u, 4); return f; }
static inline int __float_as_int(float f) { return (int)__float_as_uint(f); }
static inline float __int_as_float(int u) { return __uint_as_float((unsigned)u); }
static inline double __longlong_as_double(long long u) { double f; memcpy(&f, &u, 8); return f; }
static inline long long __double_as_longlong(double f) { long long u; memcpy(&u, &f, 8); return u; }
static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
template <class T, class U>
static inline T atomicMin(T* p, U v) { T old = *p; if ((T)v < old) *p = (T)v; return old; }
