#include "sweep/controls.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <zstd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>

#include "gbcompress/error.h"
#include "search/bracket_search.h"
#include "statistics/calibrate.h"

namespace gbcompress {
namespace {

constexpr int kLevel = 19;
constexpr int kHalvings = 40;

void append(std::vector<std::byte>& to, const void* from, std::size_t n) {
  const auto* first = static_cast<const std::byte*>(from);
  to.insert(to.end(), first, first + n);
}
void append(std::vector<std::byte>& to, const at::Tensor& values) {
  const at::Tensor dense = values.to(at::kCPU).contiguous();
  append(to, dense.data_ptr(), static_cast<std::size_t>(dense.nbytes()));
}

std::vector<std::byte> frame(const std::vector<std::byte>& raw) {
  std::vector<std::byte> packed(ZSTD_compressBound(raw.size()));
  const std::size_t n = ZSTD_compress(packed.data(), packed.size(), raw.data(), raw.size(), kLevel);
  if (ZSTD_isError(n))
    throw Error(Errc::kFailure, std::string("zstd failed: ") + ZSTD_getErrorName(n));
  packed.resize(n);
  return packed;
}

at::Tensor as_float(const at::Tensor& values) {
  return values.detach().to(at::kFloat).contiguous();
}
/// The value as binary16 holds it; what is too large stays the largest it has.
at::Tensor as_half(const at::Tensor& values) { return values.clamp(-65504, 65504).to(at::kHalf); }

}  // namespace

Control rounded_control(const std::vector<NamedParameter>& tensors, int bits) {
  if (bits < 2 || bits > 8) throw Error(Errc::kUsage, "values are rounded to 2 to 8 bits");
  const at::NoGradGuard no_grad;
  const float most = static_cast<float>((1 << (bits - 1)) - 1);
  Control control;
  std::vector<std::byte> raw;
  for (const NamedParameter& p : tensors) {
    control.values.push_back(p.tensor.detach());
    if (!p.tied_to.empty()) continue;
    if (!is_matrix(p)) {
      append(raw, p.tensor.detach());
      continue;
    }
    const at::Tensor values = as_float(p.tensor);
    const float largest = values.abs().max().item<float>();
    const float scale = largest > 0 ? largest / most : 1;
    const at::Tensor numbers = (values / scale).round_().clamp_(-most, most).to(at::kChar);
    append(raw, &scale, sizeof scale);
    append(raw, numbers);
    control.values.back() = (numbers.to(at::kFloat) * scale).to(p.tensor.scalar_type());
  }
  control.bytes = frame(raw);
  return control;
}

FactorControl::FactorControl(const std::vector<NamedParameter>& tensors) : tensors_(tensors) {
  const at::NoGradGuard no_grad;
  for (const NamedParameter& p : tensors) {
    Matrix matrix;
    if (is_matrix(p)) {
      const at::Tensor values = as_float(p.tensor).reshape({p.info.shape[0], -1});
      matrix.rows = values.size(0);
      matrix.cols = values.size(1);
      const auto [u, s, v] = at::linalg_svd(values, /*full_matrices=*/false);
      const at::Tensor root = s.sqrt();
      matrix.left = (u * root).contiguous();
      matrix.right = (root.unsqueeze(1) * v).contiguous();
    }
    matrices_.push_back(std::move(matrix));
  }
}

std::int64_t FactorControl::rank(const Matrix& matrix, double part) const {
  const std::int64_t full = std::min(matrix.rows, matrix.cols);
  const auto wanted = static_cast<std::int64_t>(std::floor(part * static_cast<double>(full)));
  return std::clamp<std::int64_t>(wanted, 1, full);
}

std::int64_t FactorControl::raw_bytes(double part) const {
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const Matrix& m = matrices_[i];
    if (m.rows > 0)
      bytes += 2 * std::min(rank(m, part) * (m.rows + m.cols), m.rows * m.cols);
    else if (tensors_[i].tied_to.empty())
      bytes += static_cast<std::int64_t>(tensors_[i].tensor.nbytes());
  }
  return bytes;
}

double FactorControl::part_for(std::int64_t bytes) const {
  if (raw_bytes(1) <= bytes) return 1;
  BracketSearch search({.cuts = kHalvings}, {.holds = 0, .fails = 1});
  while (const auto part = search.next()) search.tried(*part, raw_bytes(*part) <= bytes);
  return std::max(*search.holds(), 1e-9);
}

Control FactorControl::control(double part) const {
  const at::NoGradGuard no_grad;
  Control control;
  std::vector<std::byte> raw;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const NamedParameter& p = tensors_[i];
    const Matrix& m = matrices_[i];
    control.values.push_back(p.tensor.detach());
    if (m.rows == 0) {
      if (p.tied_to.empty()) append(raw, p.tensor.detach());
      continue;
    }
    const std::int64_t kept = rank(m, part);
    at::Tensor values;
    if (kept * (m.rows + m.cols) < m.rows * m.cols) {
      const at::Tensor left = as_half(m.left.narrow(1, 0, kept));
      const at::Tensor right = as_half(m.right.narrow(0, 0, kept));
      append(raw, left);
      append(raw, right);
      values = left.to(at::kFloat).matmul(right.to(at::kFloat));
    } else {
      const at::Tensor halves = as_half(as_float(p.tensor));
      append(raw, halves);
      values = halves.to(at::kFloat);
    }
    control.values.back() = values.reshape(p.tensor.sizes()).to(p.tensor.scalar_type());
  }
  control.bytes = frame(raw);
  return control;
}

}  // namespace gbcompress
