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

// A float mask is added, a truth value hides.
template <class W, class M> __device__ inline W with_mask(W score, M value) { return score + widen(value); }
template <class W> __device__ inline W with_mask(W score, bool seen) { return seen ? score : -infinity<W>(); }

// weights = softmax(cap(scale * scores) + mask) for `rows` rows of scores, which are those from `first_row` on of the
// groups from `first_group` on, `tile` of each; a group is the `ratio` heads, with `queries` each, that share keys. Of
// a row's `keys` those in the window around its position are seen; one that sees none gives zeros. mask and lengths may
// be null; a side of the window is open where it is negative; scores and weights may be one array.
template <class T, class M>
__global__ void attention_weights(const typename Wide<T>::type* scores, T* weights, const M* mask,
                                  const index_t* lengths, index_t rows, index_t tile, index_t first_group,
                                  index_t first_row, index_t shared, index_t ratio, index_t queries, index_t keys,
                                  typename Wide<T>::type scale, typename Wide<T>::type softcap, index_t mask_batch,
                                  index_t mask_head, index_t mask_query, index_t past, index_t left, index_t right) {
  typedef typename Wide<T>::type W;
  for (index_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const index_t group = first_group + row / tile, inner = first_row + row % tile;
    const index_t sample = group / shared, query = inner % queries;
    const index_t head = group % shared * ratio + inner / queries;
    const index_t at = query + (lengths ? lengths[sample] - queries : past);
    index_t first = left >= 0 && at - left > 0 ? at - left : 0, end = keys;
    if (lengths && lengths[sample] < end) end = lengths[sample];
    if (right >= 0 && at + right + 1 < end) end = at + right + 1;
    const W* in = scores + row * keys;
    const M* seen = mask ? mask + sample * mask_batch + head * mask_head + query * mask_query : mask;
    auto score = [&](index_t key) -> W {
      W value = in[key] * scale;
      if (softcap > 0) value = tanh(value / softcap) * softcap;
      return seen ? with_mask(value, seen[key]) : value;
    };
    // One pass for the largest score and the sum, which each thread scales to its own largest so far.
    W most = -infinity<W>(), sum = 0;
    for (index_t key = first + threadIdx.x; key < end; key += blockDim.x) {
      const W value = score(key), larger = Largest()(most, value);
      if (larger == -infinity<W>()) continue;
      sum = sum * exp(most - larger) + exp(value - larger);
      most = larger;
    }
    const W largest = over_block(most, Largest());
    sum = over_block(most == -infinity<W>() ? (W)0 : sum * exp(most - largest), Sum());
    for (index_t key = threadIdx.x; key < keys; key += blockDim.x) {
      const bool hidden = key < first || key >= end || largest == -infinity<W>();
      weights[row * keys + key] = narrow<T>(hidden ? (W)0 : exp(score(key) - largest) / sum);
    }
  }
}
