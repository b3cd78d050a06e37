#pragma once
/// Threads that save and resume together, as processes would.

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "gbcompress/checkpoint.h"
#include "support/files.h"

namespace gbcompress::testing {

/// An agreement of `world` threads, and a barrier.
class Agreement {
 public:
  explicit Agreement(int world) : world_(world) {}
  bool operator()(bool ok) {
    std::unique_lock lock(mutex_);
    const int round = round_;
    all_ = all_ && ok;
    if (++arrived_ == world_) {
      results_.push_back(all_);
      arrived_ = 0;
      all_ = true;
      ++round_;
      changed_.notify_all();
    } else {
      changed_.wait(lock, [&] { return round_ != round; });
    }
    return results_[static_cast<std::size_t>(round)];
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int world_, arrived_ = 0, round_ = 0;
  bool all_ = true;
  std::vector<bool> results_;
};

/// Runs `body` once a rank, each in a thread of its own.
/// @return what each rank ended with, null where it returned
inline std::vector<std::exception_ptr> as_ranks(
    int world, const std::function<void(const CheckpointRanks&)>& body,
    const std::string& run = "test") {
  Agreement agreement(world);
  std::vector<std::exception_ptr> results(static_cast<std::size_t>(world));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world; ++rank)
    threads.emplace_back([&, rank] {
      try {
        body({.rank = rank, .world = world, .run = run, .agree = [&](bool ok) {
                return agreement(ok);
              }});
      } catch (...) {
        results[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  return results;
}

/// The message of an Error with this code; a failure of the test for anything else.
inline std::string message_of(const std::exception_ptr& failure, Errc code) {
  if (!failure) {
    ADD_FAILURE() << "nothing was thrown";
    return "";
  }
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    EXPECT_EQ(errc_name(error.code()), errc_name(code)) << error.what();
    return error.what();
  }
}

/// Random sections; sizes from none to some pieces of the reader.
inline std::vector<CheckpointSection> random_sections(std::uint32_t seed, int most = 6,
                                                      std::size_t most_bytes = 5000) {
  std::mt19937 draw(seed);
  std::vector<CheckpointSection> sections(draw() % static_cast<std::uint32_t>(most + 1));
  for (std::size_t i = 0; i < sections.size(); ++i) {
    sections[i].name = "section." + std::to_string(i) + "/" + std::to_string(draw());
    sections[i].bytes.resize(draw() % most_bytes);
    for (std::byte& b : sections[i].bytes) b = static_cast<std::byte>(draw());
  }
  return sections;
}

inline void expect_holds(const CheckpointReader& reader, int shard,
                         const std::vector<CheckpointSection>& sections) {
  ASSERT_EQ(reader.sections(shard).size(), sections.size());
  for (std::size_t i = 0; i < sections.size(); ++i) {
    EXPECT_EQ(reader.sections(shard)[i].name, sections[i].name);
    EXPECT_EQ(reader.sections(shard)[i].bytes, static_cast<std::int64_t>(sections[i].bytes.size()));
    EXPECT_EQ(reader.read(shard, sections[i].name), sections[i].bytes);
  }
}

/// Names of what lies in a folder, sorted, one a line.
inline std::string listing(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename().string() + "\n");
  std::sort(names.begin(), names.end());
  std::string text;
  for (const std::string& name : names) text += name;
  return text;
}

}  // namespace gbcompress::testing
