#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "fuzz/mutators.h"
#include "fuzz/target.h"

namespace gbcompress::fuzz {
namespace {

constexpr std::size_t kRawEvery = 16;  // one mutation in so many changes the bytes as they are
constexpr std::size_t kMostFields = 4096, kAlignment = 32, kMostText = 1024;

/// A number, or a text behind its length.
struct GgufField {
  std::size_t at = 0, size = 0;
  bool text = false;
};

/// Passes over a file's list; stops where it makes no sense.
class Fields {
 public:
  explicit Fields(const std::string& file) : file_(file) {
    if (file.size() < 24) return;
    at_ = 4;
    number(4);
    const std::uint64_t tensors = number(8), keys = number(8);
    for (std::uint64_t i = 0; i < keys && good(); ++i) {
      text();
      value(number(4));
    }
    for (std::uint64_t i = 0; i < tensors && good(); ++i) {
      text();
      const std::uint64_t sides = std::min<std::uint64_t>(number(4), 8);
      for (std::uint64_t k = 0; k < sides; ++k) number(8);
      number(4);
      number(8);
    }
  }

  std::vector<GgufField> found;
  std::size_t end() const { return at_; }

 private:
  bool good() const { return good_ && found.size() < kMostFields; }
  std::uint64_t number(std::size_t size) {
    good_ = good_ && size <= file_.size() - at_;
    if (!good()) return 0;
    std::uint64_t value = 0;
    std::memcpy(&value, file_.data() + at_, size);
    found.push_back({at_, size, false});
    at_ += size;
    return value;
  }
  void text() {
    const std::uint64_t size = number(8);
    good_ = good_ && size <= file_.size() - at_;
    if (!good()) return;
    found.push_back({at_, size, true});
    at_ += size;
  }
  void value(std::uint64_t type) {
    constexpr std::array<std::size_t, 13> kBytes = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    good_ = good_ && type < kBytes.size();
    if (!good()) return;
    if (type == 8) {
      text();
    } else if (type == 9) {
      const std::uint64_t inner = number(4), count = number(8);
      for (std::uint64_t i = 0; i < count && good(); ++i) value(inner);
    } else {
      number(kBytes[type]);
    }
  }

  const std::string& file_;
  std::size_t at_ = 0;
  bool good_ = true;
};

std::uint64_t odd_number(unsigned seed, std::uint64_t old) {
  const std::array<std::uint64_t, 12> odd = {0,
                                             1,
                                             old + 1,
                                             old - 1,
                                             old * 2,
                                             old + kAlignment,
                                             ~std::uint64_t{0},
                                             std::uint64_t{1} << 63,
                                             std::uint64_t{1} << seed % 64,
                                             seed % 48,
                                             std::uint64_t{1} << 32,
                                             old ^ (1U << seed % 16)};
  return odd[seed / 64 % odd.size()];
}

}  // namespace

std::size_t mutate_gguf(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  std::string file(reinterpret_cast<const char*>(data), size);
  const Fields fields(file);
  if (seed % kRawEvery == 0 || fields.found.empty()) return LLVMFuzzerMutate(data, size, most);
  const unsigned choice = seed / kRawEvery;
  const GgufField field = fields.found[choice % fields.found.size()];
  const std::size_t list = fields.end();
  const auto padded = [](std::size_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  };
  const std::string rest = padded(list) < size ? file.substr(padded(list)) : "";
  file.resize(list);
  if (field.text) {
    std::vector<std::uint8_t> text(std::max(kMostText, 2 * field.size));
    std::copy_n(file.begin() + static_cast<std::ptrdiff_t>(field.at), field.size, text.begin());
    const std::uint64_t length = LLVMFuzzerMutate(text.data(), field.size, text.size());
    file.replace(field.at, field.size, reinterpret_cast<const char*>(text.data()), length);
    std::memcpy(file.data() + field.at - sizeof length, &length, sizeof length);
  } else {
    std::uint64_t value = 0;
    std::memcpy(&value, file.data() + field.at, field.size);
    value = odd_number(seed / kRawEvery / 7, value);
    std::memcpy(file.data() + field.at, &value, field.size);
  }
  file.resize(padded(file.size()));
  file += rest;
  if (file.size() > most) return LLVMFuzzerMutate(data, size, most);
  std::copy(file.begin(), file.end(), data);
  return file.size();
}

}  // namespace gbcompress::fuzz
