#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "checkpoint/folder.h"
#include "checkpoint/manifest.h"
#include "checkpoint/posix.h"
#include "gbcompress/checkpoint.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace fs = std::filesystem;
namespace {

/// Two starts of one process are apart in time, two processes of one machine in number; of two
/// machines only one gets the lock.
std::string unique_run() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return std::to_string(::getpid()) + "-" + std::to_string(now.tv_sec) + "-" +
         std::to_string(now.tv_nsec);
}

void check_ranks(CheckpointRanks& ranks) {
  if (ranks.world < 1 || ranks.world > kMaxWorld || ranks.rank < 0 || ranks.rank >= ranks.world)
    throw Error(Errc::kUsage, "rank " + std::to_string(ranks.rank) + " of " +
                                  std::to_string(ranks.world) + " cannot save checkpoints");
  if (ranks.world > 1 && (!ranks.agree || ranks.run.empty()))
    throw Error(Errc::kUsage, "several ranks need an agreement and the name of their run");
  if (ranks.run.empty()) ranks.run = unique_run();
  const bool plain = std::all_of(ranks.run.begin(), ranks.run.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
  });
  if (!plain || ranks.run.size() > 64)
    throw Error(Errc::kUsage, "'" + printable(ranks.run) +
                                  "' cannot name a run: 1 to 64 of a-z A-Z 0-9 - are allowed");
}

}  // namespace

struct CheckpointWriter::Impl {
  fs::path folder;
  CheckpointRanks ranks;
  CheckpointOptions options;
  FileHandle lock;
  std::vector<std::int64_t> good;  ///< steps that this run saved or resumed from, ascending
  std::int64_t least_step = 0;
  std::uint64_t attempts = 0;

  bool leads() const { return ranks.rank == 0; }
  bool agree(bool ok) const { return ranks.world > 1 ? ranks.agree(ok) : ok; }

  /// Does this rank's part, then hears whether all could do theirs. All leave it in the same way.
  template <typename Part>
  void together(Part&& part) const {
    std::exception_ptr failure;
    try {
      part();
    } catch (...) {
      failure = std::current_exception();
    }
    bool all = false;
    try {
      all = agree(!failure);
    } catch (...) {
      if (!failure) throw;
    }
    if (failure) std::rethrow_exception(failure);
    if (!all) throw Error(Errc::kFailure, "another rank failed; see its message");
  }

  template <typename Act>
  void try_or_warn(Act&& act) const {
    try {
      act();
    } catch (const std::exception& error) {
      if (options.warn)
        options.warn(std::string(error.what()) +
                     "; it is tried again after the next save and at the next start");
    }
  }

  void start();
  void commit(std::int64_t step, const fs::path& temporary, const CheckpointFacts& facts,
              bool& renamed) const;
  void save(std::int64_t step, std::span<const CheckpointSection> sections,
            const CheckpointFacts& facts);
  bool stays(std::int64_t step, const std::vector<std::int64_t>& fill) const;
  void remove_surplus() const;
  void remove_rests() const;
};

void CheckpointWriter::Impl::start() {
  make_folders(folder);
  lock = lock_folder(folder, ranks.run);
  const std::vector<std::int64_t> present = list_checkpoints(folder);
  if (!options.resumed_from.empty()) {
    const auto step = parse_step_name(options.resumed_from.filename().string());
    std::error_code ignored;
    if (step && fs::equivalent(options.resumed_from, folder / step_name(*step), ignored))
      good.push_back(*step);
  }
  if (!present.empty() && good.empty())
    throw Error(Errc::kExists, printable(folder.string()) + " holds checkpoints up to step " +
                                   std::to_string(present.back()) +
                                   " of a run that this one does not continue; resume from it or "
                                   "choose another folder");
  // Where the newest one was damaged, an older one is the only one known to be whole: nothing goes
  // before two are.
  const bool newest_is_whole = good.empty() || good.back() == present.back();
  if (newest_is_whole) remove_surplus();
  remove_rests();
}

bool CheckpointWriter::Impl::stays(std::int64_t step, const std::vector<std::int64_t>& fill) const {
  // One that could not be read may be whole after all, and there is only one other.
  if (good.size() < 2 && !good.empty() && step > good.back()) return true;
  const auto keep = static_cast<std::size_t>(options.keep);
  const auto first = good.size() > keep ? good.end() - options.keep : good.begin();
  return std::find(first, good.end(), step) != good.end() ||
         std::find(fill.begin(), fill.end(), step) != fill.end();
}

/// Keeps the newest ones known to be whole; while these are too few, others that are older.
void CheckpointWriter::Impl::remove_surplus() const {
  try_or_warn([&] {
    const std::vector<std::int64_t> present = list_checkpoints(folder);
    std::vector<std::int64_t> fill;
    for (auto at = present.rbegin(); at != present.rend(); ++at)
      if (!good.empty() && *at < good.front() &&
          good.size() + fill.size() < static_cast<std::size_t>(options.keep))
        fill.push_back(*at);
    for (const std::int64_t step : present) {
      if (stays(step, fill)) continue;
      try_or_warn([&] {
        // Renamed first: a checkpoint half removed would look like a damaged one.
        const fs::path doomed = folder / (step_name(step) + ".tmp-" + ranks.run + "-" +
                                          std::to_string(attempts) + "-old");
        if (!rename_if_free(folder / step_name(step), doomed))
          fail_io(doomed, "is in the way", EEXIST);
      });
    }
  });
}

void CheckpointWriter::Impl::remove_rests() const {
  try_or_warn([&] {
    for (const std::string& name : list_names(folder))
      if (is_temporary_name(name) && !is_being_written(folder / name))
        try_or_warn([&] { remove_folder(folder / name); });
  });
}

void CheckpointWriter::Impl::commit(std::int64_t step, const fs::path& temporary,
                                    const CheckpointFacts& facts, bool& renamed) const {
  Manifest manifest{.step = step, .facts = facts};
  for (int rank = 0; rank < ranks.world; ++rank)
    manifest.shards.push_back(read_shard_seal(temporary / shard_name(rank)));
  const fs::path path = temporary / kManifestName;
  FileHandle file = create_file(path);
  write_all(file, encode_manifest(manifest), path);
  finish_file(std::move(file), path);
  sync_folder(temporary);
  const fs::path complete = folder / step_name(step);
  if (!rename_if_free(temporary, complete)) {
    fs::path aside = temporary;
    exchange(temporary, complete, aside += "-old");
  }
  renamed = true;
  sync_folder(folder);
}

void CheckpointWriter::Impl::save(std::int64_t step, std::span<const CheckpointSection> sections,
                                  const CheckpointFacts& facts) {
  const fs::path temporary =
      folder / (step_name(step) + ".tmp-" + ranks.run + "-" + std::to_string(++attempts));
  bool renamed = false;
  try {
    std::vector<std::byte> head;
    together([&] {
      if (step < least_step || step > kMaxStep)
        throw Error(Errc::kUsage, "steps from " + std::to_string(least_step) + " to " +
                                      std::to_string(kMaxStep) + " can be saved now");
      head = encode_shard_head(ranks.rank, step, sections);
      if (!leads()) return;
      encode_manifest({.step = step, .facts = facts});  // refuses facts before anything is written
      make_folder(temporary);
    });
    together([&] { write_shard(temporary / shard_name(ranks.rank), head, sections); });
    together([&] {
      if (leads()) commit(step, temporary, facts, renamed);
    });
  } catch (...) {
    if (leads() && !renamed && !is_being_written(temporary))
      try_or_warn([&] { remove_folder(temporary); });
    throw;
  }
  least_step = step;
  if (good.empty() || good.back() != step) good.push_back(step);
  if (!leads()) return;
  remove_surplus();
  remove_rests();
}

CheckpointWriter::CheckpointWriter(fs::path folder, CheckpointRanks ranks,
                                   CheckpointOptions options)
    : impl_(std::make_unique<Impl>()) {
  check_ranks(ranks);
  if (options.keep < 2)
    throw Error(Errc::kUsage, "at least 2 checkpoints are kept, so that one may be damaged; got " +
                                  std::to_string(options.keep));
  impl_->folder = std::move(folder);
  impl_->ranks = std::move(ranks);
  impl_->options = std::move(options);
  impl_->together([&] {
    if (impl_->leads()) impl_->start();
  });
  impl_->together([&] {
    if (!impl_->leads()) check_same_folder(impl_->folder, impl_->ranks.run, impl_->ranks.rank);
  });
  if (const auto step = parse_step_name(impl_->options.resumed_from.filename().string()))
    impl_->least_step = *step;
}

CheckpointWriter::~CheckpointWriter() = default;
CheckpointWriter::CheckpointWriter(CheckpointWriter&&) noexcept = default;
CheckpointWriter& CheckpointWriter::operator=(CheckpointWriter&&) noexcept = default;

void CheckpointWriter::save(std::int64_t step, std::span<const CheckpointSection> sections,
                            const CheckpointFacts& facts) {
  const std::string what = "the checkpoint of step " + std::to_string(step) + " was not saved: ";
  try {
    impl_->save(step, sections, facts);
  } catch (const Error& error) {
    throw Error(error.code(), what + error.what() + "; those saved before are untouched");
  } catch (const std::bad_alloc&) {
    throw Error(Errc::kFailure, what + "memory is used up; those saved before are untouched");
  }
}

fs::path CheckpointWriter::folder_of(const fs::path& folder, std::int64_t step) {
  return folder / step_name(step);
}

}  // namespace gbcompress
