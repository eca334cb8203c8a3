// Rows that lie one after another in memory, one block to each: softmax, normalization, sums.

// y = exp(x - max) / sum. One pass for the largest, one for the sum, one to write; the row stays in cache.
template <class T> __global__ void softmax(const T* x, T* y, index_t rows, index_t length) {
  typedef typename Wide<T>::type W;
  for (index_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* in = x + row * length;
    T* out = y + row * length;
    W most = -infinity<W>();
    for (index_t i = threadIdx.x; i < length; i += blockDim.x) most = Largest()(most, widen(in[i]));
    most = over_block(most, Largest());
    W total = 0;
    for (index_t i = threadIdx.x; i < length; i += blockDim.x) total += exp(widen(in[i]) - most);
    total = over_block(total, Sum());
    for (index_t i = threadIdx.x; i < length; i += blockDim.x) out[i] = narrow<T>(exp(widen(in[i]) - most) / total);
  }
}

// y = (x - mean) / sqrt(variance + epsilon) * scale + offset; scale and offset have one element for each of the row.
template <class T>
__global__ void layer_norm(const T* x, const T* scale, const T* offset, T* y, typename Wide<T>::type* means,
                           typename Wide<T>::type* inverses, index_t rows, index_t length,
                           typename Wide<T>::type epsilon) {
  typedef typename Wide<T>::type W;
  for (index_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* in = x + row * length;
    W total = 0;
    for (index_t i = threadIdx.x; i < length; i += blockDim.x) total += widen(in[i]);
    const W mean = over_block(total, Sum()) / (W)length;
    W squares = 0;
    for (index_t i = threadIdx.x; i < length; i += blockDim.x) {
      const W off = widen(in[i]) - mean;
      squares += off * off;
    }
    const W inverse = (W)1 / sqrt(over_block(squares, Sum()) / (W)length + epsilon);
    for (index_t i = threadIdx.x; i < length; i += blockDim.x) {
      const W value = (widen(in[i]) - mean) * inverse * widen(scale[i]);
      y[row * length + i] = narrow<T>(offset ? value + widen(offset[i]) : value);
    }
    if (threadIdx.x == 0) {
      means[row] = mean;
      inverses[row] = inverse;
    }
  }
}

// y = x / sqrt(mean of squares + epsilon) * scale.
template <class T>
__global__ void rms_norm(const T* x, const T* scale, T* y, index_t rows, index_t length,
                         typename Wide<T>::type epsilon) {
  typedef typename Wide<T>::type W;
  for (index_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* in = x + row * length;
    W squares = 0;
    for (index_t i = threadIdx.x; i < length; i += blockDim.x) squares += widen(in[i]) * widen(in[i]);
    const W root = sqrt(over_block(squares, Sum()) / (W)length + epsilon);
    for (index_t i = threadIdx.x; i < length; i += blockDim.x)
      y[row * length + i] = narrow<T>(widen(in[i]) / root * widen(scale[i]));
  }
}

// The sum of each row, over `divisor`.
template <class T>
__global__ void sum_rows(const T* x, T* y, index_t rows, index_t length, typename Wide<T>::type divisor) {
  typedef typename Wide<T>::type W;
  for (index_t row = blockIdx.x; row < rows; row += gridDim.x) {
    W total = 0;
    for (index_t i = threadIdx.x; i < length; i += blockDim.x) total += widen(x[row * length + i]);
    total = over_block(total, Sum());
    if (threadIdx.x == 0) y[row] = narrow<T>(total / divisor);
  }
}
