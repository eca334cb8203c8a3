// Weighted sums of elements along one axis: linear and cubic Resize.

// result[l][i][t] = the sum over k of x[l][places[k][i]][t] * weights[k][i], from the left; a place of -1 is no tap.
// Compiled without contraction: each product is rounded, then each sum.
template <class T>
__global__ void weighted_taps(const T* x, const index_t* places, const T* weights, T* result, index_t lead,
                              index_t size, index_t count, index_t trail, index_t taps) {
  const index_t all = lead * count * trail;
  for (index_t n = (index_t)blockIdx.x * blockDim.x + threadIdx.x; n < all; n += (index_t)gridDim.x * blockDim.x) {
    const index_t t = n % trail, i = n / trail % count, l = n / trail / count;
    T total = x[(l * size + places[i]) * trail + t] * weights[i];
    for (index_t k = 1; k < taps; k++) {
      const index_t place = places[k * count + i];
      if (place >= 0) total = total + x[(l * size + place) * trail + t] * weights[k * count + i];
    }
    result[n] = total;
  }
}
