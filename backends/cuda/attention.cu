// softmax(scale Q K' + bias) V for few queries, one block to each query of each head: keys and values are read once.

// q (batch, heads, queries, size), k (batch, shared, keys, size), v (batch, shared, keys, width); heads is a multiple of
// shared. bias is null or has the strides given, 0 where it is broadcast. Dynamic shared memory: `keys` scores.
template <class T>
__global__ void attention(const T* q, const T* k, const T* v, const T* bias, T* y, index_t heads, index_t shared,
                          index_t queries, index_t keys, index_t size, index_t width, typename Wide<T>::type scale,
                          index_t bias_batch, index_t bias_head, index_t bias_query, index_t causal_past) {
  typedef typename Wide<T>::type W;
#ifdef ONEMODEL_ON_CPU
  W* scores = (W*)shim::dynamic_shared;
#else
  extern __shared__ double dynamic_shared[];
  W* scores = (W*)dynamic_shared;
#endif
  const index_t query = blockIdx.x % queries, head = blockIdx.x / queries % heads, sample = blockIdx.x / queries / heads;
  const index_t group = sample * shared + head / (heads / shared);
  const T* mine = q + (index_t)blockIdx.x * size;
  // A causal query sees the keys up to its own position; a negative causal_past means that it sees all.
  const index_t seen = causal_past < 0 ? keys : query + causal_past + 1 < keys ? query + causal_past + 1 : keys;
  W most = -infinity<W>();
  for (index_t key = threadIdx.x; key < seen; key += blockDim.x) {
    const T* other = k + (group * keys + key) * size;
    W total = 0;
    for (index_t i = 0; i < size; i++) total += widen(mine[i]) * scale * widen(other[i]);
    if (bias) total += widen(bias[sample * bias_batch + head * bias_head + query * bias_query + key]);
    scores[key] = total;
    most = Largest()(most, total);
  }
  most = over_block(most, Largest());
  W sum = 0;
  for (index_t key = threadIdx.x; key < seen; key += blockDim.x) {
    // A query whose keys are all hidden gives zeros.
    scores[key] = most == -infinity<W>() ? (W)0 : exp(scores[key] - most);
    sum += scores[key];
  }
  sum = over_block(sum, Sum());
  for (index_t i = threadIdx.x; i < width; i += blockDim.x) {
    W total = 0;
    for (index_t key = 0; key < seen; key++) total += scores[key] * widen(v[(group * keys + key) * width + i]);
    y[(index_t)blockIdx.x * width + i] = narrow<T>(sum == 0 ? (W)0 : total / sum);
  }
}
