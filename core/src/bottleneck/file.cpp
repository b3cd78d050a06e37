// What the file of save() has in it.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <map>

#include "artifact/integers/integers.h"
#include "base/parallel.h"
#include "bottleneck/impl.h"
#include "bottleneck/parameter_gnets.h"
#include "gbcompress/error.h"
#include "gbcompress/recipe.h"

namespace gbcompress {
namespace {

/// Files of integers that are smaller than this many times their settings go without those.
constexpr std::size_t kSettingsShare = 200;

std::span<const std::byte> bytes_of(const at::Tensor& contiguous) {
  return {static_cast<const std::byte*>(contiguous.data_ptr()),
          static_cast<std::size_t>(contiguous.nbytes())};
}

at::Tensor stored_values(const NamedParameter& entry) {
  return entry.tensor.detach().to(at::kCPU, to_scalar_type(entry.info.dtype)).contiguous();
}

/// The parameter as short floats, where options and values allow it.
std::optional<CodedValues> coded_plain(const NamedParameter& entry,
                                       const BottleneckOptions& options) {
  if (!codes_plain(entry, options)) return std::nullopt;
  const at::Tensor values = stored_values(entry);
  return short_floats(entry.info, bytes_of(values));
}

void add_exact(ArtifactWriter& writer, const NamedParameter& entry) {
  const ParameterInfo& info = entry.info;
  const at::Tensor values = stored_values(entry);
  const at::Tensor first = values.numel() > 0 ? values.view(-1)[0] : at::Tensor();
  if (!entry.trainable && first.defined() && values.eq(first).all().item<bool>())
    writer.add_constant(info.name, info.dtype, info.shape, bytes_of(first));
  else
    writer.add_plain(info.name, info.dtype, info.shape, bytes_of(values));
}

/// Sections of all entries where a file has that many integers, else nothing: so that they are
/// coded side by side, and no more integers are in memory than are being coded.
std::vector<std::vector<std::byte>> sections_of(const Latents& latents) {
  std::int64_t integers = 0;
  for (std::size_t i = 0; i < latents.size(); ++i) integers += latents.grid(i).size();
  if (integers <= kAutoSmall) return {};
  std::vector<std::vector<std::byte>> sections(latents.size());
  parallel_tasks(at::get_num_threads(), static_cast<std::int64_t>(latents.size()),
                 [&](std::int64_t i) {
                   const auto entry = static_cast<std::size_t>(i);
                   sections[entry] = encode_section(latents.coded(entry));
                 });
  return sections;
}

}  // namespace

void GenomicBottleneck::Impl::round_gnets() {
  if (integers.of_gnets) return;  // they are what predict() makes of them
  for (Layer& layer : generated.layers) {
    const std::vector<float> rounded = round_trip(layer.spec, options.coding, span_of(layer.theta));
    std::copy(rounded.begin(), rounded.end(), layer.theta.data_ptr<float>());
  }
}

void GenomicBottleneck::Impl::round_plain() {
  for (const std::size_t t : plain)
    if (const auto coded = coded_plain(tensors[t], options)) {
      const std::vector<float> rounded = coded_floats(*coded);
      tensors[t].tensor.detach().copy_(at::tensor(rounded).view(tensors[t].info.shape));
    }
}

void GenomicBottleneck::Impl::write_to(ArtifactWriter& writer) const {
  std::map<std::size_t, std::size_t> layer_of, entry_of;
  for (std::size_t l = 0; l < generated.layers.size(); ++l)
    layer_of[generated.routes[l].tensor] = l;
  for (std::size_t c = 0; c < integers.tensors.size(); ++c) entry_of[integers.tensors[c]] = c;
  const Latents& latents = integers.quantized.latents;
  std::vector<std::vector<std::byte>> sections = sections_of(latents);
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const NamedParameter& entry = tensors[t];
    const ParameterInfo& info = entry.info;
    if (!entry.tied_to.empty()) {
      writer.add_tied(info.name, entry.tied_to);
    } else if (const auto found = layer_of.find(t); found != layer_of.end()) {
      const std::size_t l = found->second;
      const GNetSpec& spec = generated.layers[l].spec;
      if (integers.of_gnets)
        writer.add_generated_coded(info.name, info.dtype, info.shape, spec, coded_theta(l));
      else
        writer.add_generated(info.name, info.dtype, info.shape, spec, options.coding,
                             span_of(generated.layers[l].theta));
    } else if (const auto at = entry_of.find(t); at != entry_of.end()) {
      if (sections.empty())
        writer.add_coded(info.name, info.dtype, info.shape, latents.coded(at->second));
      else
        writer.add_coded_section(info.name, info.dtype, info.shape, latents.form(at->second),
                                 std::move(sections[at->second]));
    } else if (auto coded = coded_plain(entry, options)) {
      writer.add_coded(info.name, info.dtype, info.shape, std::move(*coded));
    } else {
      add_exact(writer, entry);
    }
  }
}

ArtifactWriter GenomicBottleneck::Impl::file(const std::string& arch) const {
  ArtifactWriter writer(arch, options.settings);
  write_to(writer);
  // A stream of integers alone is not that of a file with short floats.
  if (integers.stream && !options.code_plain) writer.reuse_stream(*integers.stream);
  if (integers.any() &&
      static_cast<std::size_t>(writer.size()) < kSettingsShare * options.settings.size())
    writer.set_settings("");
  if ((finished() || integers.chosen()) && !options.code_plain && !writer.stream().empty())
    integers.stream = writer.stream();
  return writer;
}

std::int64_t GenomicBottleneck::Impl::bytes() const { return file(options.arch).size(); }

std::int64_t GenomicBottleneck::bytes() const { return impl_->bytes(); }

std::int64_t GenomicBottleneck::save(const std::filesystem::path& path,
                                     const SaveOptions& save_options) const {
  if (!impl_->finished())
    throw Error(Errc::kUsage,
                "what the file holds is chosen by finish(): call it after the last step(), before "
                "save()");
  return impl_->file(save_options.arch.value_or(impl_->options.arch))
      .write(path, save_options.overwrite);
}

Ratio GenomicBottleneck::ratio() const {
  std::int64_t dense = 0, dense_bytes = 0;
  for (const NamedParameter& p : impl_->tensors) {
    if (!p.tied_to.empty()) continue;
    if (p.trainable) dense += p.info.elements();
    dense_bytes += p.info.elements() * dtype_bits(p.info.dtype) / 8;
  }
  const std::int64_t stored = gnet_parameters(*this) + plain_parameters(*this);
  return {stored > 0 ? static_cast<double>(dense) / static_cast<double>(stored) : 1,
          static_cast<double>(dense_bytes) / static_cast<double>(bytes())};
}

}  // namespace gbcompress
