// Windows of a kernel on its way over two spatial axes: columns for a matrix product, depthwise convolution, pooling.

struct Windows {
  int height, width;           // of the input
  int kernel_y, kernel_x;
  int stride_y, stride_x;
  int dilation_y, dilation_x;
  int before_y, before_x;      // padding
  int rows, columns;           // of windows
};

// A kernel's parameters, one by one: CuPy passes no structures.
#define WINDOWS                                                                                                       \
  int height, int width, int kernel_y, int kernel_x, int stride_y, int stride_x, int dilation_y, int dilation_x,      \
      int before_y, int before_x, int rows, int columns
#define AS_STRUCTURE                                                                                                  \
  {                                                                                                                   \
    height, width, kernel_y, kernel_x, stride_y, stride_x, dilation_y, dilation_x, before_y, before_x, rows, columns  \
  }

// result[n][c * taps + tap][window] = x[n][c][...], 0 in the padding.
template <class T> __global__ void im2col(const T* x, T* result, WINDOWS, index_t planes) {
  const Windows w = AS_STRUCTURE;
  const index_t windows = (index_t)w.rows * w.columns, taps = (index_t)w.kernel_y * w.kernel_x;
  const index_t size = planes * taps * windows;
  for (index_t i = (index_t)blockIdx.x * blockDim.x + threadIdx.x; i < size; i += (index_t)gridDim.x * blockDim.x) {
    const index_t window = i % windows, tap = i / windows % taps, plane = i / windows / taps;
    const int y = (int)(window / w.columns) * w.stride_y - w.before_y + (int)(tap / w.kernel_x) * w.dilation_y;
    const int z = (int)(window % w.columns) * w.stride_x - w.before_x + (int)(tap % w.kernel_x) * w.dilation_x;
    T value = T();
    if (0 <= y && y < w.height && 0 <= z && z < w.width) value = x[(plane * w.height + y) * w.width + z];
    result[i] = value;
  }
}

// Each channel with `multiplier` filters of its own; one product after another is added, rows first.
template <class T>
__global__ void depthwise(const T* x, const T* filters, const T* bias, T* result, WINDOWS, index_t batch,
                          index_t channels, index_t multiplier) {
  const Windows w = AS_STRUCTURE;
  typedef typename Wide<T>::type W;
  const index_t windows = (index_t)w.rows * w.columns, outputs = channels * multiplier;
  const index_t size = batch * outputs * windows;
  for (index_t i = (index_t)blockIdx.x * blockDim.x + threadIdx.x; i < size; i += (index_t)gridDim.x * blockDim.x) {
    const index_t window = i % windows, output = i / windows % outputs, sample = i / windows / outputs;
    const T* plane = x + (sample * channels + output / multiplier) * w.height * w.width;
    const T* filter = filters + output * w.kernel_y * w.kernel_x;
    W total = 0;
    for (int a = 0; a < w.kernel_y; a++) {
      const int y = (int)(window / w.columns) * w.stride_y - w.before_y + a * w.dilation_y;
      if (y < 0 || y >= w.height) continue;
      for (int b = 0; b < w.kernel_x; b++) {
        const int z = (int)(window % w.columns) * w.stride_x - w.before_x + b * w.dilation_x;
        if (z < 0 || z >= w.width) continue;
        total += widen(plane[(index_t)y * w.width + z]) * widen(filter[a * w.kernel_x + b]);
      }
    }
    result[i] = narrow<T>(bias ? total + widen(bias[output]) : total);
  }
}

// The largest element of each window, NaN if there is one.
template <class T> __global__ void max_pool(const T* x, T* result, WINDOWS, index_t planes) {
  const Windows w = AS_STRUCTURE;
  typedef typename Wide<T>::type W;
  const index_t windows = (index_t)w.rows * w.columns, size = planes * windows;
  for (index_t i = (index_t)blockIdx.x * blockDim.x + threadIdx.x; i < size; i += (index_t)gridDim.x * blockDim.x) {
    const index_t window = i % windows;
    const T* plane = x + i / windows * w.height * w.width;
    W most = -infinity<W>();
    for (int a = 0; a < w.kernel_y; a++) {
      const int y = (int)(window / w.columns) * w.stride_y - w.before_y + a * w.dilation_y;
      if (y < 0 || y >= w.height) continue;
      for (int b = 0; b < w.kernel_x; b++) {
        const int z = (int)(window % w.columns) * w.stride_x - w.before_x + b * w.dilation_x;
        if (0 <= z && z < w.width) most = Largest()(most, widen(plane[(index_t)y * w.width + z]));
      }
    }
    result[i] = narrow<T>(most);
  }
}

// The sum of each window over the number of its elements; with `padding` also of those in the padding, which ends
// `after_y` and `after_x` behind the input.
template <class T>
__global__ void average_pool(const T* x, T* result, WINDOWS, index_t planes, int padding, int after_y, int after_x) {
  const Windows w = AS_STRUCTURE;
  typedef typename Wide<T>::type W;
  const index_t windows = (index_t)w.rows * w.columns, size = planes * windows;
  for (index_t i = (index_t)blockIdx.x * blockDim.x + threadIdx.x; i < size; i += (index_t)gridDim.x * blockDim.x) {
    const index_t window = i % windows;
    const T* plane = x + i / windows * w.height * w.width;
    W total = 0;
    int counted = 0;
    for (int a = 0; a < w.kernel_y; a++) {
      const int y = (int)(window / w.columns) * w.stride_y - w.before_y + a * w.dilation_y;
      for (int b = 0; b < w.kernel_x; b++) {
        const int z = (int)(window % w.columns) * w.stride_x - w.before_x + b * w.dilation_x;
        const bool inside = 0 <= y && y < w.height && 0 <= z && z < w.width;
        if (inside) total += widen(plane[(index_t)y * w.width + z]);
        counted += inside || (padding && y < w.height + after_y && z < w.width + after_x);
      }
    }
    result[i] = narrow<T>(total / (W)counted);
  }
}
