/// Saves checkpoints again and again, and looks whether they are whole: what checkpoint_faults.py
/// kills and starves.
///   checkpoint_saver save DIR RANK WORLD RUN FD STEPS BYTES now|background|again
///       resumes from DIR where it can and saves STEPS (0: without end) of about BYTES a rank;
///       `again` begins with the step resumed from. Ranks agree through the socket FD: each sends a
///       byte and gets one back, 1 where all are well. Prints "started", then "saved N" for each
///       checkpoint that is known to be on the disk.
///   checkpoint_saver check DIR    prints "step N"; "damaged: ..." for each newer one that is not
///   whole checkpoint_saver start DIR    starts a run that saves nothing: rests of earlier ones go
/// Exit status: 0 done, 1 an error, 3 there is no checkpoint.

#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/random.h"
#include "checkpoint/posix.h"
#include "gbcompress/checkpoint.h"
#include "gbcompress/error.h"

namespace {

using namespace gbcompress;  // NOLINT: a program of its own

void print(const std::string& line) {
  if (repeated([&] { return ::write(STDOUT_FILENO, line.data(), line.size()); }) !=
      static_cast<ssize_t>(line.size()))
    throw Error(Errc::kIo, "standard output is closed");
}

/// What strace looks for: calls between the two marks belong to resuming and saving.
void mark(const char* which) { static_cast<void>(::access(which, F_OK)); }

bool agree(int fd, bool ok) {
  const char mine = ok ? 1 : 0;
  char all = 0;
  if (repeated([&] { return ::send(fd, &mine, 1, MSG_NOSIGNAL); }) != 1 ||
      repeated([&] { return ::recv(fd, &all, 1, 0); }) != 1)
    throw Error(Errc::kFailure, "the other ranks are gone");
  return all == 1;
}

std::vector<CheckpointSection> content(std::int64_t step, int rank, std::int64_t bytes) {
  const RandomStream stream(7, "saver", std::to_string(rank), static_cast<std::uint64_t>(step));
  std::vector<CheckpointSection> sections(3);
  for (std::size_t i = 0; i < sections.size(); ++i) {
    sections[i].name = "section " + std::to_string(i);
    // Sizes differ from rank to rank; the second section is empty.
    sections[i].bytes.resize(static_cast<std::size_t>(i == 1 ? 0 : bytes / 2 + rank + 1));
    for (std::size_t k = 0; k < sections[i].bytes.size(); k += 4) {
      const std::uint32_t value = stream.bits(1'000'000'000 * i + k);
      std::memcpy(&sections[i].bytes[k], &value,
                  std::min<std::size_t>(4, sections[i].bytes.size() - k));
    }
  }
  return sections;
}

void check_content(const CheckpointReader& reader) {
  const std::int64_t bytes = std::stoll(reader.facts().at("bytes"));
  for (int shard = 0; shard < reader.world(); ++shard)
    for (const CheckpointSection& section : content(reader.step(), shard, bytes))
      if (reader.read(shard, section.name) != section.bytes)
        throw Error(Errc::kCorrupt, "step " + std::to_string(reader.step()) + ", shard " +
                                        std::to_string(shard) + " is not what was saved");
}

void warn(const std::string& text) { std::fprintf(stderr, "warning: %s\n", text.c_str()); }

int check(const std::string& folder) {
  const auto reader = CheckpointReader::open(
      folder, {}, [](const std::string& text) { print("damaged: " + text + "\n"); });
  check_content(reader);
  print("step " + std::to_string(reader.step()) + "\n");
  return 0;
}

/// Folder of the newest checkpoint, empty where there is none.
std::filesystem::path resume(const std::string& folder, const CheckpointRanks& ranks,
                             std::int64_t& step) {
  try {
    const auto reader = CheckpointReader::open(folder, ranks, warn);
    check_content(reader);
    step = reader.step();
    return reader.folder();
  } catch (const Error& error) {
    if (error.code() != Errc::kNotFound) throw;
    return {};
  }
}

template <typename Writer>
void save_all(Writer& writer, const CheckpointRanks& ranks, std::int64_t step, std::int64_t steps,
              std::int64_t bytes) {
  constexpr bool kNow = std::is_same_v<Writer, CheckpointWriter>;
  const CheckpointFacts facts = {{"bytes", std::to_string(bytes)}};
  const std::int64_t first = step + 1;
  for (std::int64_t i = 0; steps == 0 || i < steps; ++i) {
    ++step;
    writer.save(step, content(step, ranks.rank, bytes), facts);
    // In the background, that this save began says that the one before is on the disk.
    if (kNow || step > first) print("saved " + std::to_string(kNow ? step : step - 1) + "\n");
  }
  if constexpr (!kNow) {
    writer.finish();
    print("saved " + std::to_string(step) + "\n");
  }
}

int save(const std::vector<std::string>& words) {
  const int fd = std::stoi(words[4]);
  const CheckpointRanks ranks{.rank = std::stoi(words[1]),
                              .world = std::stoi(words[2]),
                              .run = words[3],
                              .agree = [fd](bool ok) { return agree(fd, ok); }};
  const std::int64_t steps = std::stoll(words[5]), bytes = std::stoll(words[6]);
  print("started\n");
  mark("gbc-mark-begin");
  std::int64_t step = 0;
  const CheckpointOptions options{.resumed_from = resume(words[0], ranks, step), .warn = warn};
  if (words[7] == "background") {
    BackgroundCheckpointWriter writer(words[0], ranks, options);
    save_all(writer, ranks, step, steps, bytes);
  } else {
    if (words[7] == "again" && step > 0) --step;
    CheckpointWriter writer(words[0], ranks, options);
    save_all(writer, ranks, step, steps, bytes);
  }
  mark("gbc-mark-end");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + std::min(argc, 2), argv + argc);
  const std::string verb = argc > 1 ? argv[1] : "";
  try {
    if (verb == "check" && words.size() == 1) return check(words[0]);
    if (verb == "save" && words.size() == 8) return save(words);
    if (verb == "start" && words.size() == 1) {
      std::int64_t step = 0;
      CheckpointWriter(words[0], {}, {.resumed_from = resume(words[0], {}, step), .warn = warn});
      return 0;
    }
    throw Error(Errc::kUsage, "checkpoint_saver save|check|start DIR ...");
  } catch (const Error& error) {
    std::fprintf(stderr, "saver: %s\n", error.what());
    return error.code() == Errc::kNotFound && verb == "check" ? 3 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "saver: %s\n", error.what());
    return 1;
  }
}
