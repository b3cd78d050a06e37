#include "decoding.h"

#include <algorithm>
#include <cstdint>

#include "artifact/header/header.h"
#include "gbcompress/error.h"
#include "gbcompress/tensors.h"
#include "module.h"

namespace gbcompress::python {
namespace {

constexpr std::size_t kCacheLine = 64;

/// A part of the memory, which goes back to the system page by page when Python is done with it.
struct Part {
  std::shared_ptr<FreshMemory> memory;
  std::span<std::byte> bytes;

  ~Part() {
    constexpr std::size_t kWorthwhile = std::size_t{64} << 10;
    if (bytes.size() >= kWorthwhile) give_back_pages(bytes.data(), bytes.size());
  }
};

}  // namespace

Decoding::Decoding(const ArtifactReader& artifact, BaseSource base,
                   const std::vector<std::pair<std::size_t, DType>>& reads, int threads)
    : artifact_(artifact), done_(reads.size()) {
  std::vector<std::size_t> places, sizes;
  std::size_t size = 0;
  for (const auto& [tensor, dtype] : reads) {
    places.push_back(size);
    const auto bytes =
        static_cast<std::size_t>(tensor_bytes(artifact.tensors()[tensor].shape, dtype));
    size += (bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
    requests_.push_back({tensor, dtype, {}});
    sizes.push_back(bytes);
  }
  memory_ = std::make_shared<FreshMemory>(size);
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    requests_[i].bytes = {memory_->data() + places[i], sizes[i]};
    check_request(artifact, requests_[i].tensor, requests_[i].dtype, requests_[i].bytes);
  }
  progress_.done = [this](std::size_t place) {
    {
      const std::lock_guard lock(mutex_);
      done_[place] = true;
    }
    changed_.notify_all();
  };
  thread_ = std::thread([this, from = std::move(base), threads] { run(from, threads); });
}

void Decoding::run(const BaseSource& base, int threads) {
  std::exception_ptr failure;
  try {
    read_many(artifact_, requests_, {.base = base, .threads = threads}, &progress_);
  } catch (...) {
    failure = std::current_exception();
  }
  {
    const std::lock_guard lock(mutex_);
    failure_ = failure;
    ended_ = true;
  }
  changed_.notify_all();
}

Decoding::~Decoding() { stop(); }

void Decoding::stop() {
  progress_.stop = true;
  if (thread_.joinable()) thread_.join();
}

nb::object Decoding::take(std::size_t place) {
  if (place >= requests_.size()) throw nb::index_error("there is no such tensor");
  {
    const nb::gil_scoped_release release;
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_[place] || ended_; });
    if (!done_[place]) {
      if (failure_) std::rethrow_exception(failure_);
      throw Error(Errc::kUsage, "the tensor was not decoded; open the file again");
    }
  }
  auto* const part = new Part{memory_, requests_[place].bytes};
  const nb::capsule owner(part, [](void* p) noexcept { delete static_cast<Part*>(p); });
  return nb::cast(Output<std::uint8_t>(reinterpret_cast<std::uint8_t*>(part->bytes.data()),
                                       {part->bytes.size()}, owner));
}

void bind_decoding(nb::module_& module) {
  nb::class_<Decoding>(module, "Decoding")
      .def("take", &Decoding::take, nb::arg("place"))
      .def("stop", &Decoding::stop, nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace gbcompress::python
