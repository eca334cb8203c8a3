// Reading and writing by index. Elements are moved as unsigned integers of their width.

// places = indices in [0, size), counted from the end where negative; a wrong one becomes 0, and the position of the
// first wrong one goes to `wrong`.
template <class I>
__global__ void check_indices(const I* indices, index_t* places, index_t count, index_t size, index_t* wrong) {
  for (index_t i = (index_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += (index_t)gridDim.x * blockDim.x) {
    const index_t index = (index_t)indices[i];
    const bool inside = -size <= index && index < size;
    if (!inside) atomicMin(wrong, i);
    places[i] = inside ? (index < 0 ? index + size : index) : 0;
  }
}

// result[l][i][t] = x[l][indices[i]][t], with the same check.
template <class E, class I>
__global__ void gather(const E* x, const I* indices, E* result, index_t lead, index_t size, index_t count,
                       index_t trail, index_t* wrong) {
  const index_t all = lead * count * trail;
  for (index_t n = (index_t)blockIdx.x * blockDim.x + threadIdx.x; n < all; n += (index_t)gridDim.x * blockDim.x) {
    const index_t t = n % trail, i = n / trail % count, l = n / trail / count;
    index_t index = (index_t)indices[i];
    if (index < -size || index >= size) {
      if (l == 0 && t == 0) atomicMin(wrong, i);
      index = 0;
    }
    result[n] = x[(l * size + (index < 0 ? index + size : index)) * trail + t];
  }
}

struct Replace { template <class T> __device__ T operator()(T a, T b) const { return b; } };
struct Add { template <class T> __device__ T operator()(T a, T b) const { return a + b; } };
struct Multiply { template <class T> __device__ T operator()(T a, T b) const { return a * b; } };

// NaN before all, and +0 before -0 where the larger one is wanted, the other way round where the smaller one is.
template <class T> __device__ inline bool negative(T x) { return x < 0; }
template <> __device__ inline bool negative(float x) { return __float_as_int(x) < 0; }
template <> __device__ inline bool negative(double x) { return __double_as_longlong(x) < 0; }

struct Larger {
  template <class T> __device__ T operator()(T a, T b) const {
    return a > b || a != a || (a == b && negative(b) && !negative(a)) ? a : b;
  }
};
struct Smaller {
  template <class T> __device__ T operator()(T a, T b) const {
    return a < b || a != a || (a == b && negative(a) && !negative(b)) ? a : b;
  }
};

// result[r] = x[r], reduced with updates[order[first[r]]] ... updates[order[last[r] - 1]] in that order: the updates of
// one row follow each other as they came, so the bits do not depend on how threads run.
template <class T, class F>
__global__ void scatter(const T* x, const T* updates, const index_t* order, const index_t* first, const index_t* last,
                        T* result, index_t rows, index_t width) {
  const index_t all = rows * width;
  for (index_t n = (index_t)blockIdx.x * blockDim.x + threadIdx.x; n < all; n += (index_t)gridDim.x * blockDim.x) {
    const index_t row = n / width, column = n % width;
    T value = x[n];
    for (index_t i = first[row]; i < last[row]; i++) value = F()(value, updates[order[i] * width + column]);
    result[n] = value;
  }
}
