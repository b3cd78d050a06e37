// Any compiler's program: runs a target on its seeds, on files, and on mutations of both, which
// depend on the seed alone. The input that ended the process stays in the file finding-TARGET.
//   gbc_fuzz_plain --list | TARGET [--runs N] [--seed S] [FILE or FOLDER...]
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <stdexcept>

#include "fuzz/target.h"

namespace {

using namespace gbcompress::fuzz;
namespace fs = std::filesystem;

constexpr std::size_t kLongest = 1 << 16;
std::mt19937_64 generator;

std::size_t below(std::size_t n) { return n == 0 ? 0 : generator() % n; }

/// What survives a crash of any kind: the input lies in a mapped file.
class Record {
 public:
  explicit Record(const std::string& name) : path_("finding-" + name) {
    const int fd = ::open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0 || ::ftruncate(fd, kBytes) != 0) throw std::runtime_error("cannot write " + path_);
    void* memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ::close(fd);
    if (memory == MAP_FAILED) throw std::runtime_error("cannot map " + path_);
    data_ = static_cast<std::byte*>(memory);
  }
  ~Record() {
    ::munmap(data_, kBytes);
    ::unlink(path_.c_str());
  }
  /// The first eight bytes are the length.
  void keep(const Bytes& input) {
    const std::uint64_t size = std::min(input.size(), kBytes - 8);
    std::memcpy(data_, &size, sizeof size);
    std::copy_n(input.begin(), size, data_ + 8);
  }

 private:
  static constexpr std::size_t kBytes = 8 + (8 << 20);
  std::string path_;
  std::byte* data_ = nullptr;
};

std::vector<Bytes> read_inputs(const std::vector<std::string>& paths) {
  std::vector<fs::path> files;
  for (const std::string& path : paths) {
    if (!fs::is_directory(path))
      files.emplace_back(path);
    else
      for (const auto& entry : fs::directory_iterator(path)) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<Bytes> inputs;
  for (const fs::path& file : files) {
    std::ifstream in(file, std::ios::binary);
    if (!in) throw std::runtime_error("cannot read " + file.string());
    const std::string text(std::istreambuf_iterator<char>(in), {});
    inputs.push_back(to_bytes(text));
  }
  return inputs;
}

int run(const std::vector<std::string>& words) {
  const Target& target = find_target(words.at(0));
  std::uint64_t runs = 0, seed = 1;
  std::vector<std::string> paths;
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (words[i] == "--runs")
      runs = std::stoull(words.at(++i));
    else if (words[i] == "--seed")
      seed = std::stoull(words.at(++i));
    else
      paths.push_back(words[i]);
  }
  std::vector<Bytes> inputs = target.seeds();
  for (Bytes& input : read_inputs(paths)) inputs.push_back(std::move(input));
  Record record(words[0]);
  const auto once = [&](const Bytes& input) {
    record.keep(input);
    run_guarded(target, input);
  };
  for (const Bytes& input : inputs) once(input);
  generator.seed(seed);
  for (std::uint64_t n = 0; n < runs; ++n) {
    Bytes input = inputs[below(inputs.size())];
    std::size_t size = std::min(input.size(), kLongest);
    input.resize(kLongest);
    auto* data = reinterpret_cast<std::uint8_t*>(input.data());
    for (std::size_t rounds = 1 + below(4); rounds > 0; --rounds)
      size = target.mutate ? target.mutate(data, size, kLongest, static_cast<unsigned>(generator()))
                           : LLVMFuzzerMutate(data, size, kLongest);
    input.resize(size);
    once(input);
  }
  std::printf("%s: %zu inputs and %llu mutations\n", words[0].c_str(), inputs.size(),
              static_cast<unsigned long long>(runs));
  return 0;
}

}  // namespace

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most) {
  static constexpr std::uint64_t kEdges[] = {
      0, 1, 127, 128, 255, 0x7fff, 0xffff, 0x7fffffff, 0xffffffff, 1ull << 62, ~0ull >> 1, ~0ull};
  const std::size_t at = below(size), left = size - at;
  switch (below(6)) {
    case 0:  // a bit
      if (size) data[at] ^= static_cast<std::uint8_t>(1u << below(8));
      return size;
    case 1:  // a byte
      if (size) data[at] = static_cast<std::uint8_t>(generator());
      return size;
    case 2: {  // cut a piece out
      const std::size_t n = std::min(left, 1 + below(16));
      std::memmove(data + at, data + at + n, left - n);
      return size - n;
    }
    case 3: {  // put a piece in, a copy of another place
      const std::size_t n = std::min({most - size, 1 + below(16), std::max<std::size_t>(size, 1)});
      std::memmove(data + at + n, data + at, left);
      const std::size_t from = below(size - std::min(size, n) + 1);
      for (std::size_t i = 0; i < n; ++i)
        data[at + i] = size ? data[from + i] : static_cast<std::uint8_t>(generator());
      return size + n;
    }
    case 4: {  // a number that is an edge of its type
      const std::uint64_t edge = kEdges[below(std::size(kEdges))];
      std::memcpy(data + at, &edge, std::min<std::size_t>(left, std::size_t{1} << below(4)));
      return size;
    }
    default:  // the beginning alone
      return below(8) ? size : at;
  }
}

int main(int count, char** arguments) {
  try {
    const std::vector<std::string> words(arguments + 1, arguments + count);
    if (words.empty() || words[0] != "--list") return run(words);
    for (const Target& target : targets()) std::puts(std::string(target.name).c_str());
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gbc_fuzz_plain: %s\n", error.what());
    return 2;
  }
}
