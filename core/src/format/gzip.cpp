#include "format/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "gbcompress/error.h"

namespace gbcompress {

struct MaybeGzip::Inflater {
  z_stream stream{};
  bool member_ended = false;

  Inflater() {
    // 16 on top of the window: gzip framing, whose length and CRC-32 zlib checks.
    if (inflateInit2(&stream, 16 + MAX_WBITS) != Z_OK)
      throw Error(Errc::kFailure, "zlib cannot be started");
  }
  ~Inflater() { inflateEnd(&stream); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
};

MaybeGzip::MaybeGzip(const std::filesystem::path& path)
    : label_(printable(path.string())), file_(path), rest_(file_.bytes()) {
  if (rest_.empty()) throw Error(Errc::kTruncated, label_ + " is empty");
  if (rest_.size() >= 2 && rest_[0] == std::byte{0x1f} && rest_[1] == std::byte{0x8b})
    inflater_ = std::make_unique<Inflater>();
}

MaybeGzip::~MaybeGzip() = default;

/// Fills `out` as far as content lasts. @return bytes written, fewer than `out` has at the end only
std::size_t MaybeGzip::next(std::span<std::byte> out) {
  if (!inflater_) {
    const std::size_t n = std::min(out.size(), rest_.size());
    std::copy_n(rest_.begin(), n, out.begin());
    rest_ = rest_.subspan(n);
    return n;
  }
  z_stream& stream = inflater_->stream;
  std::size_t written = 0;
  while (written < out.size()) {
    if (inflater_->member_ended) {
      if (rest_.empty()) break;
      inflateReset(&stream);
      inflater_->member_ended = false;
    }
    constexpr std::size_t kStep = 1 << 20;
    const std::size_t in_step = std::min(rest_.size(), kStep);
    const std::size_t out_step = std::min(out.size() - written, kStep);
    stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(rest_.data()));
    stream.avail_in = static_cast<uInt>(in_step);
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + written);
    stream.avail_out = static_cast<uInt>(out_step);
    const int status = inflate(&stream, Z_NO_FLUSH);
    rest_ = rest_.subspan(in_step - stream.avail_in);
    written += out_step - stream.avail_out;
    if (status == Z_STREAM_END) {
      inflater_->member_ended = true;
    } else if (status == Z_MEM_ERROR) {
      throw Error(Errc::kFailure, "no memory is left to inflate " + label_);
    } else if (status == Z_BUF_ERROR || (status == Z_OK && rest_.empty() && stream.avail_out)) {
      throw Error(Errc::kTruncated, label_ + " breaks off inside its gzip data");
    } else if (status != Z_OK) {
      throw Error(Errc::kCorrupt, label_ + " holds damaged gzip data");
    }
  }
  return written;
}

std::vector<std::byte> MaybeGzip::read_up_to(std::uint64_t n) {
  constexpr std::uint64_t kFirst = 1 << 20;
  std::vector<std::byte> content;
  while (content.size() < n) {
    const std::size_t have = content.size();
    const std::uint64_t step =
        std::min<std::uint64_t>(n - have, std::max<std::uint64_t>(kFirst, have));
    content.resize(have + step);
    const std::size_t got = next(std::span(content).subspan(have));
    content.resize(have + got);
    if (got < step) break;
  }
  return content;
}

std::vector<std::byte> MaybeGzip::read(std::uint64_t n) {
  auto content = read_up_to(n);
  if (content.size() < n)
    throw Error(Errc::kTruncated, label_ + " ends " + std::to_string(n - content.size()) +
                                      " bytes before what it declares");
  return content;
}

void MaybeGzip::expect_end() {
  if (!read_up_to(1).empty()) throw Error(Errc::kCorrupt, label_ + " holds more than it declares");
}

}  // namespace gbcompress
