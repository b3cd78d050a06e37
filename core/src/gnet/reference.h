#pragma once
/// The g-net of one tile in plain loops, on any scalar type: float is what artifacts are decoded
/// with, double is what the tests differentiate numerically. The order of every sum is part of the
/// file format (artifact-gnets.md); loops may be exchanged, sums may not be regrouped.

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/random.h"
#include "gnet/tile_kernel.h"

namespace gbcompress::reference {

/// Positions computed side by side, so that the compiler can keep them in vector registers.
inline constexpr std::int64_t kLanes = 16;

template <typename T>
T relu(T x) {
  return x > 0 ? x : T(0);
}

/// Codes [count, width] of one axis: the table's, or this g-net's own trained ones.
template <typename T>
std::vector<T> axis_codes(const CodeTable& table, const T* theta, std::int64_t latents) {
  if (!table.trained) return {table.values.begin(), table.values.end()};
  return {theta + latents, theta + latents + table.count * table.width};
}

/// out[n, h] = start[h] + sum_k codes[n, k] * weight[h, k], k ascending.
/// @param weight  rows of `inputs` numbers, of which those of this axis begin at `first`
template <typename T>
std::vector<T> axis_products(const std::vector<T>& codes, std::int64_t count, const T* weight,
                             std::int64_t inputs, std::int64_t first, std::int64_t hidden,
                             const T* start) {
  const std::int64_t width = static_cast<std::int64_t>(codes.size()) / count;
  std::vector<T> transposed(static_cast<std::size_t>(width * hidden));
  for (std::int64_t h = 0; h < hidden; ++h)
    for (std::int64_t k = 0; k < width; ++k)
      transposed[k * hidden + h] = weight[h * inputs + first + k];
  std::vector<T> out(static_cast<std::size_t>(count * hidden));
  for (std::int64_t n = 0; n < count; ++n) {
    T* row = out.data() + n * hidden;
    if (start) std::copy_n(start, hidden, row);
    for (std::int64_t k = 0; k < width; ++k) {
      const T code = codes[n * width + k];
      const T* w = transposed.data() + k * hidden;
      for (std::int64_t h = 0; h < hidden; ++h) row[h] += code * w[h];
    }
  }
  return out;
}

/// The first layer before ReLU, split by axis: pre[i, j, k, h] = (A[i, h] + B[j, h]) + C[k, h],
/// where the bias is in A and C exists only where there are kernel inputs.
template <typename T>
struct FirstLayer {
  std::vector<T> row_codes, col_codes, kernel_codes;
  std::vector<T> rows, cols, kernel;

  FirstLayer(const BankShape& shape, const BankShape::Layer& layer, const T* theta) {
    const TileCodes& codes = shape.codes;
    const T* weight = theta + layer.weight;
    const std::int64_t used = codes.rows.width + codes.cols.width;
    row_codes = axis_codes(codes.rows, theta, codes.rows.trained ? shape.row_latents() : 0);
    col_codes = axis_codes(codes.cols, theta, codes.cols.trained ? shape.col_latents() : 0);
    kernel_codes = axis_codes(codes.kernel, theta, 0);
    rows = axis_products(row_codes, codes.rows.count, weight, layer.inputs, 0, layer.outputs,
                         theta + layer.bias);
    cols = axis_products<T>(col_codes, codes.cols.count, weight, layer.inputs, codes.rows.width,
                            layer.outputs, nullptr);
    if (codes.kernel.width > 0)
      kernel = axis_products<T>(kernel_codes, codes.kernel.count, weight, layer.inputs, used,
                                layer.outputs, nullptr);
  }
};

/// The normal number of one position of a stochastic tile; 0 if only the mean is computed.
template <typename Tile>
float noise_at(const BankShape& shape, const Tile& tile, std::int64_t i, std::int64_t j,
               std::int64_t k) {
  if (!tile.noise.stream) return 0;
  const std::int64_t position = (i * shape.tile_cols + j) * shape.kernel + k;
  return tile.noise.stream->normal(tile.noise.first + static_cast<std::uint64_t>(position));
}

/// out[o, lane] = bias[o] + sum_h weight[o, h] * in[h, lane], h ascending.
template <typename T>
void dense(const BankShape::Layer& layer, const T* theta, const T* in, T* out) {
  for (std::int64_t o = 0; o < layer.outputs; ++o) {
    const T* weight = theta + layer.weight + o * layer.inputs;
    T sum[kLanes];
    for (std::int64_t l = 0; l < kLanes; ++l) sum[l] = theta[layer.bias + o];
    for (std::int64_t h = 0; h < layer.inputs; ++h)
      for (std::int64_t l = 0; l < kLanes; ++l) sum[l] += weight[h] * in[h * kLanes + l];
    for (std::int64_t l = 0; l < kLanes; ++l) out[o * kLanes + l] = sum[l];
  }
}

/// Writes one tile: scale * g-net.
/// @param layers  shape.layers(), computed once for many tiles
template <typename T>
void forward_tile(const BankShape& shape, const std::vector<BankShape::Layer>& layers,
                  const T* theta, const TileMemory<T*>& tile) {
  const std::int64_t hidden = layers.front().outputs;
  const FirstLayer<T> first(shape, layers.front(), theta);
  const bool drawn = shape.generator == Generator::kStochastic && tile.noise.stream;
  std::int64_t widest = 1;
  for (const auto& layer : layers) widest = std::max(widest, layer.outputs);
  std::vector<T> cols(static_cast<std::size_t>(hidden * kLanes));
  std::vector<T> now(static_cast<std::size_t>(widest * kLanes)), next(now);
  for (std::int64_t begin = 0; begin < tile.cols; begin += kLanes) {
    const std::int64_t lanes = std::min(kLanes, tile.cols - begin);
    for (std::int64_t h = 0; h < hidden; ++h)
      for (std::int64_t l = 0; l < lanes; ++l)
        cols[h * kLanes + l] = first.cols[(begin + l) * hidden + h];
    for (std::int64_t i = 0; i < tile.rows; ++i) {
      const T* row = first.rows.data() + i * hidden;
      for (std::int64_t k = 0; k < shape.kernel; ++k) {
        const T* position = first.kernel.empty() ? nullptr : first.kernel.data() + k * hidden;
        for (std::int64_t h = 0; h < hidden; ++h)
          for (std::int64_t l = 0; l < kLanes; ++l) {
            T pre = row[h] + cols[h * kLanes + l];
            if (position) pre = pre + position[h];
            now[h * kLanes + l] = relu(pre);
          }
        for (std::size_t n = 1; n + 1 < layers.size(); ++n) {
          dense(layers[n], theta, now.data(), next.data());
          for (std::int64_t e = 0; e < layers[n].outputs * kLanes; ++e) now[e] = relu(next[e]);
        }
        dense(layers.back(), theta, now.data(), next.data());
        T* out = tile.data + i * tile.row_stride + begin * tile.col_stride + k;
        for (std::int64_t l = 0; l < lanes; ++l) {
          T value = next[l];
          if (drawn)
            value += std::exp(next[kLanes + l]) * T(noise_at(shape, tile, i, begin + l, k));
          out[l * tile.col_stride] = value * T(tile.scale);
        }
        if (shape.generator == Generator::kStochastic && tile.log_deviation)
          for (std::int64_t l = 0; l < lanes; ++l)
            tile.log_deviation[out - tile.data + l * tile.col_stride] = next[kLanes + l];
      }
    }
  }
}

/// Adds what the axes received back to the first layer's weights:
/// grad_weight[h, first + k] += sum_n delta[n, h] * codes[n, k].
template <typename T>
void axis_gradient(const std::vector<T>& codes, const std::vector<T>& delta, std::int64_t hidden,
                   std::int64_t inputs, std::int64_t first, T* grad_weight) {
  const std::int64_t count = static_cast<std::int64_t>(delta.size()) / hidden;
  const std::int64_t width = static_cast<std::int64_t>(codes.size()) / count;
  for (std::int64_t n = 0; n < count; ++n)
    for (std::int64_t h = 0; h < hidden; ++h)
      for (std::int64_t k = 0; k < width; ++k)
        grad_weight[h * inputs + first + k] += delta[n * hidden + h] * codes[n * width + k];
}

/// grad_latents[n, k] += sum_h delta[n, h] * weight[h, first + k], for a trained axis.
template <typename T>
void latent_gradient(const CodeTable& table, const std::vector<T>& delta, std::int64_t hidden,
                     std::int64_t inputs, std::int64_t first, const T* weight, T* grad_latents) {
  for (std::int64_t n = 0; n < table.count; ++n)
    for (std::int64_t k = 0; k < table.width; ++k)
      for (std::int64_t h = 0; h < hidden; ++h)
        grad_latents[n * table.width + k] += delta[n * hidden + h] * weight[h * inputs + first + k];
}

/// Adds the gradient of one tile to `grad`. The derivative of ReLU is 0 at 0 and below.
template <typename T>
void backward_tile(const BankShape& shape, const std::vector<BankShape::Layer>& layers,
                   const T* theta, const TileMemory<const T*>& tile, T* grad) {
  const std::int64_t hidden = layers.front().outputs;
  const FirstLayer<T> first(shape, layers.front(), theta);
  std::vector<T> row_delta(first.rows.size()), col_delta(first.cols.size()),
      kernel_delta(first.kernel.size());
  std::vector<std::vector<T>> active(layers.size() - 1);  // after ReLU, of each hidden layer
  std::int64_t widest = 1;
  for (std::size_t n = 0; n + 1 < layers.size(); ++n) {
    active[n].resize(static_cast<std::size_t>(layers[n].outputs));
    widest = std::max(widest, layers[n].outputs);
  }
  std::vector<T> delta(static_cast<std::size_t>(std::max<std::int64_t>(widest, 2))), below(delta);
  const auto& top = layers.back();
  const bool drawn = shape.generator == Generator::kStochastic && tile.noise.stream;

  for (std::int64_t i = 0; i < tile.rows; ++i)
    for (std::int64_t j = 0; j < tile.cols; ++j)
      for (std::int64_t k = 0; k < shape.kernel; ++k) {
        for (std::int64_t h = 0; h < hidden; ++h) {
          T pre = first.rows[i * hidden + h] + first.cols[j * hidden + h];
          if (!first.kernel.empty()) pre = pre + first.kernel[k * hidden + h];
          active[0][h] = relu(pre);
        }
        for (std::size_t n = 1; n + 1 < layers.size(); ++n)
          for (std::int64_t o = 0; o < layers[n].outputs; ++o) {
            T sum = theta[layers[n].bias + o];
            for (std::int64_t h = 0; h < layers[n].inputs; ++h)
              sum += theta[layers[n].weight + o * layers[n].inputs + h] * active[n - 1][h];
            active[n][o] = relu(sum);
          }
        const std::int64_t at = i * tile.row_stride + j * tile.col_stride + k;
        delta[0] = tile.data[at] * T(tile.scale);
        delta[1] = 0;
        if (drawn) {  // d(mean + exp(s) * noise) / ds = exp(s) * noise
          T log_deviation = theta[top.bias + 1];
          for (std::int64_t h = 0; h < top.inputs; ++h)
            log_deviation += theta[top.weight + top.inputs + h] * active[layers.size() - 2][h];
          delta[1] = delta[0] * std::exp(log_deviation) * T(noise_at(shape, tile, i, j, k));
        }
        if (shape.generator == Generator::kStochastic && tile.log_deviation)
          delta[1] += tile.log_deviation[at];
        for (std::size_t n = layers.size() - 1; n > 0; --n) {
          const auto& layer = layers[n];
          const T* in = active[n - 1].data();
          std::fill_n(below.begin(), layer.inputs, T(0));
          for (std::int64_t o = 0; o < layer.outputs; ++o) {
            grad[layer.bias + o] += delta[o];
            T* grad_weight = grad + layer.weight + o * layer.inputs;
            const T* weight = theta + layer.weight + o * layer.inputs;
            for (std::int64_t h = 0; h < layer.inputs; ++h) {
              grad_weight[h] += delta[o] * in[h];
              below[h] += delta[o] * weight[h];
            }
          }
          for (std::int64_t h = 0; h < layer.inputs; ++h) delta[h] = in[h] > 0 ? below[h] : T(0);
        }
        for (std::int64_t h = 0; h < hidden; ++h) {
          row_delta[i * hidden + h] += delta[h];
          col_delta[j * hidden + h] += delta[h];
          if (!kernel_delta.empty()) kernel_delta[k * hidden + h] += delta[h];
        }
      }

  const auto& layer = layers.front();
  const TileCodes& codes = shape.codes;
  for (std::int64_t i = 0; i < shape.tile_rows; ++i)
    for (std::int64_t h = 0; h < hidden; ++h) grad[layer.bias + h] += row_delta[i * hidden + h];
  T* grad_weight = grad + layer.weight;
  const std::int64_t second = codes.rows.width, third = second + codes.cols.width;
  axis_gradient(first.row_codes, row_delta, hidden, layer.inputs, 0, grad_weight);
  axis_gradient(first.col_codes, col_delta, hidden, layer.inputs, second, grad_weight);
  if (codes.kernel.width > 0)
    axis_gradient(first.kernel_codes, kernel_delta, hidden, layer.inputs, third, grad_weight);
  const T* weight = theta + layer.weight;
  if (codes.rows.trained)
    latent_gradient(codes.rows, row_delta, hidden, layer.inputs, 0, weight,
                    grad + shape.row_latents());
  if (codes.cols.trained)
    latent_gradient(codes.cols, col_delta, hidden, layer.inputs, second, weight,
                    grad + shape.col_latents());
}

}  // namespace gbcompress::reference
