#include "artifact/read_many.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "artifact/direct_values.h"
#include "artifact/file_digest.h"
#include "artifact/header/header.h"
#include "artifact/integers/integers.h"
#include "artifact/narrow.h"
#include "base/mapped_inputs.h"
#include "base/optional_parts.h"
#include "base/parallel.h"
#include "gbcompress/error.h"

namespace gbcompress {
#ifndef GBC_FREESTANDING  // libgbz reads one tensor at a time, on one thread
namespace {

constexpr auto kNone = static_cast<std::size_t>(-1);

/// A part of a tensor that is decoded straight from its stripe, or a whole one.
struct ReadPiece {
  const ReadRequest* request;
  std::size_t tensor;
  const DirectValues* values = nullptr;  ///< null: the whole tensor
  std::size_t part = 0;
  std::size_t next = kNone;  ///< of its task
};

/// Tasks of threads. One reads all pieces of a stripe that tensors share, so that no thread waits
/// for another one that decodes it.
class Tasks {
 public:
  explicit Tasks(const ArtifactReader& artifact) : artifact_(artifact) {}

  void add_parts(ReadPiece piece) {
    const auto& parts = piece.values->parts();
    for (piece.part = 0; piece.part < parts.size(); ++piece.part)
      add(piece, parts[piece.part].stripe);
  }
  void add_whole(const ReadPiece& piece) {
    if (in_stripes(artifact_.tensors()[piece.tensor]))
      add(piece, artifact_.lanes()->parts(piece.tensor).front().stripe);
    else
      begin(piece);
  }
  std::size_t size() const { return first_.size(); }
  /// Calls read(piece) for each one of a task.
  template <typename Read>
  void run(std::size_t task, const Read& read) const {
    for (std::size_t i = first_[task]; i != kNone; i = pieces_[i].next) read(pieces_[i]);
  }

 private:
  void add(const ReadPiece& piece, std::uint32_t stripe) {
    if (!artifact_.lanes()->is_shared(stripe)) return begin(piece);
    if (last_.size() <= stripe) last_.resize(stripe + std::size_t{1}, kNone);
    const std::size_t before = std::exchange(last_[stripe], pieces_.size());
    if (before == kNone) return begin(piece);
    pieces_[before].next = pieces_.size();
    pieces_.push_back(piece);
  }
  void begin(const ReadPiece& piece) {
    first_.push_back(pieces_.size());
    pieces_.push_back(piece);
  }

  const ArtifactReader& artifact_;
  std::vector<ReadPiece> pieces_;
  std::vector<std::size_t> first_;  ///< pieces of tasks
  std::vector<std::size_t> last_;   ///< [stripe] the last piece of its task
};

void read_part(const ReadPiece& piece) {
  const LanesPart& part = piece.values->parts()[piece.part];
  const auto size = static_cast<std::size_t>(dtype_bits(piece.request->dtype) / 8);
  piece.values->read(piece.part, piece.request->dtype,
                     piece.request->bytes.subspan(static_cast<std::size_t>(part.first) * size,
                                                  static_cast<std::size_t>(part.size) * size));
}

void read_whole(const ArtifactReader& artifact, const ReadPiece& piece,
                const DecodeOptions& options) {
  convert_elements(decode_elements(artifact, piece.tensor, options).bytes(),
                   artifact.tensors()[piece.tensor].dtype, piece.request->dtype,
                   piece.request->bytes);
}

}  // namespace
#endif

std::size_t owner_of(const ArtifactReader& artifact, std::size_t tensor) {
  const auto& tensors = artifact.tensors();
  if (tensor >= tensors.size() || tensors[tensor].kind != TensorKind::kTied) return tensor;
  const auto found = std::find_if(tensors.begin(), tensors.end(), [&](const ArtifactTensor& each) {
    return each.name == tensors[tensor].tied_to;
  });
  return static_cast<std::size_t>(found - tensors.begin());
}

void check_type(const ArtifactReader& artifact, std::size_t tensor, DType dtype,
                std::span<const std::byte> bytes) {
  const auto& tensors = artifact.tensors();
  if (tensor >= tensors.size()) throw Error(Errc::kUsage, "there is no such tensor");
  const ArtifactTensor& entry = tensors[tensor];
  const bool narrow = dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
  if (dtype != entry.dtype && !(narrow && is_real(entry.dtype)))
    throw Error(Errc::kUsage, printable(entry.name) + " is of type " +
                                  std::string(dtype_name(entry.dtype)) + ", which is not read as " +
                                  std::string(dtype_name(dtype)) + "; request its own type");
  const auto element = static_cast<std::uintptr_t>(std::max(1, dtype_bits(dtype) / 8));
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % element != 0)
    throw Error(Errc::kUsage, "the memory for " + printable(entry.name) +
                                  " is not aligned to its elements of " + std::to_string(element) +
                                  " bytes");
}

void check_request(const ArtifactReader& artifact, std::size_t tensor, DType dtype,
                   std::span<const std::byte> bytes) {
  check_type(artifact, tensor, dtype, bytes);
  const ArtifactTensor& entry = artifact.tensors()[tensor];
  const std::int64_t needed = tensor_bytes(entry.shape, dtype);
  if (static_cast<std::int64_t>(bytes.size()) != needed)
    throw Error(Errc::kShapeMismatch, printable(entry.name) + " needs " + std::to_string(needed) +
                                          " bytes as " + std::string(dtype_name(dtype)) + ", " +
                                          std::to_string(bytes.size()) + " were given");
}

bool decodes_apart(const ArtifactReader& artifact) noexcept {
  if (!optional_parts::kSmall && !optional_parts::kGnets) return true;
  const bool streamed = artifact.profile() == CodecProfile::kSmall;
  return std::none_of(artifact.tensors().begin(), artifact.tensors().end(),
                      [&](const ArtifactTensor& tensor) {
                        return has_spec(tensor.kind) || (streamed && has_values(tensor));
                      });
}

bool reads_directly(const ArtifactReader& artifact, std::size_t tensor) noexcept {
  return DirectValues::fits(artifact, tensor);
}

#ifdef GBC_FREESTANDING
void read_into(const ArtifactReader& artifact, std::size_t tensor, DType dtype,
               std::span<std::byte> bytes, const DecodeOptions& options) {
  check_request(artifact, tensor, dtype, bytes);
  const std::size_t owner = owner_of(artifact, tensor);
  if (DirectValues::fits(artifact, owner))
    DirectValues(artifact, owner).read_all(dtype, bytes, 1);
  else
    convert_elements(decode_elements(artifact, owner, options).bytes(),
                     artifact.tensors()[owner].dtype, dtype, bytes);
  check_range(artifact, tensor, dtype, bytes, options);
}
#else
namespace {

/// Reads requests that were checked.
class Reading {
 public:
  Reading(const ArtifactReader& artifact, std::span<const ReadRequest> requests,
          const DecodeOptions& options, ReadProgress* progress)
      : artifact_(artifact),
        requests_(requests),
        options_(options),
        progress_(progress),
        tasks_(artifact) {
    alone_.threads = 1;
    if (progress_) left_ = std::vector<std::atomic<std::size_t>>(requests.size());
  }

  void run() {
    const int threads = options_.threads > 0 ? options_.threads : usable_processors();
    const bool apart = decodes_apart(artifact_);
    for (const ReadRequest& request : requests_) {
      ReadPiece whole{&request, owner_of(artifact_, request.tensor)};
      expect(request, 1);
      if (DirectValues::fits(artifact_, whole.tensor)) {
        whole.values = &direct_.emplace_back(artifact_, whole.tensor);
        const std::size_t parts = whole.values->parts().size();
        if (parts == 0) complete(request);  // a tensor of no values
        if (parts > 1) expect(request, parts);
        tasks_.add_parts(whole);
      } else if (apart) {
        tasks_.add_whole(whole);
      } else if (!stopped()) {
        read_whole(artifact_, whole, options_);
        complete(request);
      }
    }
    parallel_tasks(threads, static_cast<std::int64_t>(tasks_.size()), [&](std::int64_t i) {
      tasks_.run(static_cast<std::size_t>(i), [&](const ReadPiece& piece) {
        if (!stopped()) read(piece);
      });
    });
    check_mapped_inputs();
  }

 private:
  std::size_t place_of(const ReadRequest& request) const {
    return static_cast<std::size_t>(&request - requests_.data());
  }
  bool stopped() const { return progress_ && progress_->stop; }
  void expect(const ReadRequest& request, std::size_t parts) {
    if (progress_) left_[place_of(request)] = parts;
  }

  void read(const ReadPiece& piece) {
    if (piece.values)
      read_part(piece);
    else
      read_whole(artifact_, piece, alone_);
    complete(*piece.request);
  }
  /// A part of a request has been read.
  void complete(const ReadRequest& request) {
    if (!progress_ || left_[place_of(request)].fetch_sub(1) != 1) return;
    check_range(artifact_, request.tensor, request.dtype, request.bytes, alone_);
    progress_->done(place_of(request));
  }

  const ArtifactReader& artifact_;
  std::span<const ReadRequest> requests_;
  DecodeOptions options_, alone_ = options_;
  ReadProgress* progress_;
  std::vector<std::atomic<std::size_t>> left_;  ///< parts of each request that are not read yet
  std::deque<DirectValues> direct_;
  Tasks tasks_;
};

}  // namespace

void read_many(const ArtifactReader& artifact, std::span<const ReadRequest> requests,
               const DecodeOptions& options, ReadProgress* progress) {
  for (const ReadRequest& request : requests)
    check_request(artifact, request.tensor, request.dtype, request.bytes);
  blame_damage(artifact, [&] { Reading(artifact, requests, options, progress).run(); });
  if (progress) return;  // ranges were checked
  for (const ReadRequest& request : requests)
    check_range(artifact, request.tensor, request.dtype, request.bytes, options);
}

void read_into(const ArtifactReader& artifact, std::size_t tensor, DType dtype,
               std::span<std::byte> bytes, const DecodeOptions& options) {
  const ReadRequest request{tensor, dtype, bytes};
  read_many(artifact, {&request, 1}, options);
}
#endif

}  // namespace gbcompress
