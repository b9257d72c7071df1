// Tensors as kernels index them: x[n][c], with sizes and strides.
#pragma once
#include <stddef.h>
#include <stdint.h>

namespace at {
template <class T> struct DefaultPtrTraits { using PtrType = T*; };
template <class T> struct RestrictPtrTraits { using PtrType = T* __restrict__; };

template <class T, size_t N, template <class> class P = DefaultPtrTraits, class I = int64_t> class TensorAccessor {
 public:
  __host__ __device__ TensorAccessor(typename P<T>::PtrType data, const I* sizes, const I* strides)
      : data_(data), sizes_(sizes), strides_(strides) {}
  __host__ __device__ decltype(auto) operator[](I i) const {
    if constexpr (N == 1) return (data_[strides_[0] * i]);
    else return TensorAccessor<T, N - 1, P, I>(data_ + strides_[0] * i, sizes_ + 1, strides_ + 1);
  }
  __host__ __device__ I size(I axis) const { return sizes_[axis]; }
  __host__ __device__ I stride(I axis) const { return strides_[axis]; }
  __host__ __device__ typename P<T>::PtrType data() const { return data_; }

 private:
  typename P<T>::PtrType data_;
  const I *sizes_, *strides_;
};

template <class T, size_t N, template <class> class P = DefaultPtrTraits, class I = int64_t> class GenericPackedTensorAccessor {
 public:
  GenericPackedTensorAccessor(typename P<T>::PtrType data, const int64_t* sizes, const int64_t* strides) : data_(data) {
    for (size_t i = 0; i < N; i++) sizes_[i] = I(sizes[i]), strides_[i] = I(strides[i]);
  }
  __host__ __device__ decltype(auto) operator[](I i) const { return TensorAccessor<T, N, P, I>(data_, sizes_, strides_)[i]; }
  __host__ __device__ I size(I axis) const { return sizes_[axis]; }
  __host__ __device__ I stride(I axis) const { return strides_[axis]; }
  __host__ __device__ typename P<T>::PtrType data() const { return data_; }

 private:
  typename P<T>::PtrType data_;
  I sizes_[N], strides_[N];
};
template <class T, size_t N, template <class> class P = DefaultPtrTraits>
using PackedTensorAccessor32 = GenericPackedTensorAccessor<T, N, P, int32_t>;
template <class T, size_t N, template <class> class P = DefaultPtrTraits>
using PackedTensorAccessor64 = GenericPackedTensorAccessor<T, N, P, int64_t>;
template <class T, size_t N, template <class> class P = DefaultPtrTraits, class I = int64_t>
using PackedTensorAccessor = GenericPackedTensorAccessor<T, N, P, I>;
}  // namespace at
