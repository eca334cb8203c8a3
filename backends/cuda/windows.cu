// Windows of a kernel on its way over the spatial axes: columns for a matrix product, depthwise convolution, pooling.
// AXES is 3, or 2 for one or two axes; what is missing has one element, and a window that does not move.

struct Windows {
  int depth, height, width;    // of the input
  int kernel_z, kernel_y, kernel_x;
  int stride_z, stride_y, stride_x;
  int dilation_z, dilation_y, dilation_x;
  int before_z, before_y, before_x;  // padding
  int layers, rows, columns;   // of windows
};

// A kernel's parameters, one by one: CuPy passes no structures.
#define WINDOWS                                                                                                       \
  int depth, int height, int width, int kernel_z, int kernel_y, int kernel_x, int stride_z, int stride_y,             \
      int stride_x, int dilation_z, int dilation_y, int dilation_x, int before_z, int before_y, int before_x,         \
      int layers, int rows, int columns
#define AS_STRUCTURE                                                                                                  \
  {                                                                                                                   \
    depth, height, width, kernel_z, kernel_y, kernel_x, stride_z, stride_y, stride_x, dilation_z, dilation_y,         \
        dilation_x, before_z, before_y, before_x, layers, rows, columns                                               \
  }

struct Place { int z, y, x; };

// The element that a tap of a window meets; outside of the input in the padding.
template <int AXES> __device__ inline Place place(const Windows& w, index_t window, int c, int a, int b) {
  Place p;
  p.x = (int)(window % w.columns) * w.stride_x - w.before_x + b * w.dilation_x;
  const index_t row = window / w.columns;
  p.y = (int)(AXES == 3 ? row % w.rows : row) * w.stride_y - w.before_y + a * w.dilation_y;
  p.z = AXES == 3 ? (int)(row / w.rows) * w.stride_z - w.before_z + c * w.dilation_z : 0;
  return p;
}

__device__ inline bool inside(const Windows& w, Place p) {
  return 0 <= p.z && p.z < w.depth && 0 <= p.y && p.y < w.height && 0 <= p.x && p.x < w.width;
}

__device__ inline index_t offset(const Windows& w, Place p) {
  return ((index_t)p.z * w.height + p.y) * w.width + p.x;
}

__device__ inline index_t elements(const Windows& w) { return (index_t)w.depth * w.height * w.width; }
__device__ inline index_t count(const Windows& w) { return (index_t)w.layers * w.rows * w.columns; }

// Calls visit(place, tap) for each tap of a window, the last axis fastest.
template <int AXES, class F> __device__ inline void each_tap(const Windows& w, index_t window, F visit) {
  int tap = 0;
  for (int c = 0; c < (AXES == 3 ? w.kernel_z : 1); c++)
    for (int a = 0; a < w.kernel_y; a++)
      for (int b = 0; b < w.kernel_x; b++) visit(place<AXES>(w, window, c, a, b), tap++);
}

// result[n][c * taps + tap][window] = x[n][c][...], 0 in the padding.
template <class T, int AXES> __global__ void im2col(const T* x, T* result, WINDOWS, index_t planes) {
  const Windows w = AS_STRUCTURE;
  const index_t windows = count(w), taps = (index_t)w.kernel_z * w.kernel_y * w.kernel_x;
  const index_t size = planes * taps * windows;
  for (index_t i = (index_t)blockIdx.x * blockDim.x + threadIdx.x; i < size; i += (index_t)gridDim.x * blockDim.x) {
    const index_t tap = i / windows % taps, row = tap / w.kernel_x;
    const int a = (int)(AXES == 3 ? row % w.kernel_y : row), c = AXES == 3 ? (int)(row / w.kernel_y) : 0;
    const Place p = place<AXES>(w, i % windows, c, a, (int)(tap % w.kernel_x));
    T value = T();
    if (inside(w, p)) value = x[i / windows / taps * elements(w) + offset(w, p)];
    result[i] = value;
  }
}

// Each channel with `multiplier` filters of its own; one product after another is added, rows first.
template <class T, int AXES>
__global__ void depthwise(const T* x, const T* filters, const T* bias, T* result, WINDOWS, index_t batch,
                          index_t channels, index_t multiplier) {
  const Windows w = AS_STRUCTURE;
  typedef typename Wide<T>::type W;
  const index_t windows = count(w), outputs = channels * multiplier, taps = (index_t)w.kernel_z * w.kernel_y * w.kernel_x;
  const index_t size = batch * outputs * windows;
  for (index_t i = (index_t)blockIdx.x * blockDim.x + threadIdx.x; i < size; i += (index_t)gridDim.x * blockDim.x) {
    const index_t output = i / windows % outputs, sample = i / windows / outputs;
    const T* plane = x + (sample * channels + output / multiplier) * elements(w);
    const T* filter = filters + output * taps;
    W total = 0;
    each_tap<AXES>(w, i % windows, [&](Place p, int tap) {
      if (inside(w, p)) total += widen(plane[offset(w, p)]) * widen(filter[tap]);
    });
    result[i] = narrow<T>(bias ? total + widen(bias[output]) : total);
  }
}

// The largest element of each window, NaN if there is one.
template <class T, int AXES> __global__ void max_pool(const T* x, T* result, WINDOWS, index_t planes) {
  const Windows w = AS_STRUCTURE;
  typedef typename Wide<T>::type W;
  const index_t windows = count(w), size = planes * windows;
  for (index_t i = (index_t)blockIdx.x * blockDim.x + threadIdx.x; i < size; i += (index_t)gridDim.x * blockDim.x) {
    const T* plane = x + i / windows * elements(w);
    W most = -infinity<W>();
    each_tap<AXES>(w, i % windows, [&](Place p, int) {
      if (inside(w, p)) most = Largest()(most, widen(plane[offset(w, p)]));
    });
    result[i] = narrow<T>(most);
  }
}

// The sum of each window over the number of its elements; with `padding` also of those in the padding, which ends
// `after` behind the input on each axis.
template <class T, int AXES>
__global__ void average_pool(const T* x, T* result, WINDOWS, index_t planes, int padding, int after_z, int after_y,
                             int after_x) {
  const Windows w = AS_STRUCTURE;
  typedef typename Wide<T>::type W;
  const index_t windows = count(w), size = planes * windows;
  for (index_t i = (index_t)blockIdx.x * blockDim.x + threadIdx.x; i < size; i += (index_t)gridDim.x * blockDim.x) {
    const T* plane = x + i / windows * elements(w);
    W total = 0;
    int counted = 0;
    each_tap<AXES>(w, i % windows, [&](Place p, int) {
      const bool met = inside(w, p);
      if (met) total += widen(plane[offset(w, p)]);
      counted += met || (padding && p.z < w.depth + after_z && p.y < w.height + after_y && p.x < w.width + after_x);
    });
    result[i] = narrow<T>(total / (W)counted);
  }
}
