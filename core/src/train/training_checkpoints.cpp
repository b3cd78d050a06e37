#include "train/training_checkpoints.h"

#include <ATen/ATen.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <random>
#include <sstream>

#include "base/digest.h"
#include "bottleneck/internals.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr const char* kPosition = "position";
constexpr const char* kSearch = "search#state";
constexpr const char* kBestFile = "search#best_file";
constexpr const char* kKeptState = "kept#";
constexpr const char* kStrategy = "strategy#";  // no parameter's name has a '#'

/// What can never take a checkpoint is refused before the work.
/// @throws Error(kIo)
void check_place(const fs::path& folder) {
  std::error_code ignored;
  fs::path at = fs::absolute(folder, ignored);
  while (!fs::exists(at, ignored) && at.has_relative_path()) at = at.parent_path();
  if (::access(at.c_str(), W_OK) != 0)
    throw Error(Errc::kIo, printable(folder.string()) + " cannot be written to: " +
                               std::strerror(errno) + "; choose a folder that may be written to");
}

std::string position_text(const RunPosition& p, std::int64_t saves) {
  return std::to_string(p.attempt) + " " + p.phase + " " + std::to_string(p.done) + " " +
         std::to_string(saves);
}

struct Stored {
  RunPosition position;
  std::int64_t steps = 0;
};
Stored parse_position(const std::string& text, const std::string& folder) {
  Stored stored;
  std::istringstream in(text);
  RunPosition& p = stored.position;
  if (!(in >> p.attempt >> p.phase >> p.done >> stored.steps) || p.attempt < 0 || p.done < 0 ||
      stored.steps < 0 || (p.phase != "fit" && p.phase != "train"))
    throw Error(Errc::kCorrupt, folder + " has no position of its run; use another checkpoint");
  return stored;
}

std::string fact_of(const CheckpointFacts& facts, const std::string& name) {
  const auto found = facts.find(name);
  return found == facts.end() ? "" : found->second;
}

/// A name that no other start has.
std::string new_run() {
  std::random_device device;
  std::string run;
  for (int i = 0; i < 16; ++i) run += "0123456789abcdef"[device() % 16];
  return run;
}

std::span<const std::byte> bytes_of(const at::Tensor& contiguous) {
  return {static_cast<const std::byte*>(contiguous.data_ptr()),
          static_cast<std::size_t>(contiguous.nbytes())};
}

bool all_finite(const std::vector<StateEntry>& state) {
  for (const auto& entry : state)
    if (entry.value.is_floating_point() && !at::isfinite(entry.value).all().item<bool>())
      return false;
  return true;
}

}  // namespace

struct TrainingCheckpoints::Impl {
  CheckpointSettings settings;
  CheckpointFacts facts;
  Group* group;
  std::function<void(const std::string&)> warn;
  CheckpointRanks ranks;
  std::optional<CheckpointReader> reader;
  std::optional<RunPosition> resumed;
  std::unique_ptr<BackgroundCheckpointWriter> writer;
  std::int64_t steps = 0;      ///< of the whole run, all attempts and phases
  std::int64_t saved_at = -1;  ///< steps at the last save
  Clock::time_point last_save = Clock::now();
  std::string failure;  ///< why the last one could not be saved; "" where it could
  bool begun = false;   ///< the last save, whose end the next one waits for

  bool in_training = false;  ///< resumed in the middle of it; its strategy is not restored yet

  bool writes() const { return !settings.folder.empty(); }
  /// Fills the values in from sections of these names behind the prefix.
  void read(std::vector<StateEntry>& state, const std::string& prefix) const;
  bool keeps_state() const;
  /// In the background. @throws Error(kIo) where none can be started
  void save(const RunPosition& position, const GenomicBottleneck& bottleneck,
            const Strategy* strategy);
  void open_writer();
  /// Does something to the checkpoints. A disk that cannot take them is a warning: the run is worth
  /// more than its checkpoints. @return false then, on every rank
  template <typename F>
  bool try_to(F&& act);
  /// Ranks must decide alike: a signal may reach one alone, and clocks differ.
  /// @param save  of this rank; becomes true if any rank saves
  /// @return the signal that requests a stop, 0 for none
  int agree_on(bool& save) const;
};

TrainingCheckpoints::TrainingCheckpoints(CheckpointSettings settings, CheckpointFacts facts,
                                         Group* group, std::function<void(const std::string&)> warn)
    : impl_(std::make_unique<Impl>()) {
  Impl& self = *impl_;
  self.settings = std::move(settings);
  self.facts = std::move(facts);
  self.group = group && group->world() > 1 ? group : nullptr;
  self.warn = std::move(warn);
  if (self.writes()) check_place(self.settings.folder);
  self.ranks.run = new_run();
  if (self.group) {
    self.ranks.rank = group->rank();
    self.ranks.world = group->world();
    self.ranks.run = group->all_gather(self.ranks.run)[0];
    self.ranks.agree = group->background_agreement("checkpoints");
  }
  if (self.settings.resume) {
    self.reader = CheckpointReader::open(*self.settings.resume, self.ranks, self.warn);
    if (self.group) self.group->agree("the checkpoint to resume from", self.reader->identity());
    self.reader->require(self.facts);
    const std::string folder = printable(self.reader->folder().string());
    const Stored stored = parse_position(fact_of(self.reader->facts(), kPosition), folder);
    self.resumed = stored.position;
    const auto section = [&](const char* name) {
      return self.reader->has(0, name)
                 ? std::make_shared<const std::vector<std::byte>>(self.reader->read(0, name))
                 : nullptr;
    };
    self.resumed->search = section(kSearch);
    self.resumed->best_file = section(kBestFile);
    self.steps = self.saved_at = stored.steps;
  } else if (self.writes() && !list_checkpoints(self.settings.folder).empty()) {
    const std::string folder = printable(self.settings.folder.string());
    throw Error(Errc::kExists,
                folder + " holds checkpoints of another run; resume that one with `resume` " +
                    folder + ", or remove them");
  }
}

TrainingCheckpoints::~TrainingCheckpoints() = default;

std::string TrainingCheckpoints::chosen_fact(const std::string& name, const std::string& value) {
  Impl& self = *impl_;
  const std::string stored = self.reader ? fact_of(self.reader->facts(), name) : "";
  return self.facts[name] = stored.empty() ? value : stored;
}

const std::optional<RunPosition>& TrainingCheckpoints::resumed() const { return impl_->resumed; }

void TrainingCheckpoints::Impl::read(std::vector<StateEntry>& state,
                                     const std::string& prefix) const {
  for (auto& entry : state) {
    const std::string name = prefix + entry.name;
    int shard = 0;
    while (shard < reader->world() && !reader->has(shard, name)) ++shard;
    if (shard == reader->world())
      throw Error(Errc::kShapeMismatch, printable(reader->folder().string()) + " lacks " +
                                            printable(name) +
                                            "; it was saved from another model or plan");
    entry.value = entry.value.to(at::kCPU).clone(at::MemoryFormat::Contiguous);
    reader->read_into(shard, name,
                      {static_cast<std::byte*>(entry.value.data_ptr()),
                       static_cast<std::size_t>(entry.value.nbytes())});
  }
}

bool TrainingCheckpoints::Impl::keeps_state() const {
  for (int shard = 0; shard < reader->world(); ++shard)
    for (const auto& section : reader->sections(shard))
      if (section.name.starts_with(kKeptState)) return true;
  return false;
}

void TrainingCheckpoints::restore(Strategy& strategy) {
  if (!impl_->in_training) return;
  impl_->in_training = false;
  auto state = strategy.aux_state();  // names, shapes and types are this strategy's
  impl_->read(state, kStrategy);
  strategy.restore(state);
  if (impl_->group) impl_->group->barrier();
}

RunPosition TrainingCheckpoints::restore(GenomicBottleneck& bottleneck) {
  Impl& self = *impl_;
  RunPosition position = *self.resumed;
  auto state = bottleneck.training_state();  // names, shapes and types are this model's
  if (self.keeps_state()) {
    auto kept = bottleneck.training_state();
    self.read(kept, kKeptState);
    position.kept_state = std::make_shared<const std::vector<StateEntry>>(std::move(kept));
  }
  self.read(state, "");
  bottleneck.restore_training_state(state);
  impl_->in_training = impl_->resumed->phase == "train";
  // With nothing left to train, rank 0 would be done, and remove what the others still read.
  if (self.group) self.group->barrier();
  self.resumed.reset();
  return position;
}

template <typename F>
bool TrainingCheckpoints::Impl::try_to(F&& act) {
  try {
    act();
    return true;
  } catch (const Error& error) {
    // Where several save together, the others are told that one failed.
    if (error.code() != Errc::kIo && !(group && error.code() == Errc::kFailure)) throw;
    last_save = Clock::now();
    // Once for all saves of a disk that stays full.
    if (warn && failure.empty())
      warn("warning: no checkpoint could be saved: " + std::string(error.what()) +
           "; the run continues without it");
    failure = error.what();
    return false;
  }
}

void TrainingCheckpoints::Impl::open_writer() {
  if (writer) return;
  CheckpointOptions options;
  options.keep = settings.keep;
  options.warn = warn;
  if (reader) options.resumed_from = reader->folder();
  writer = std::make_unique<BackgroundCheckpointWriter>(settings.folder, ranks, std::move(options));
}

void TrainingCheckpoints::Impl::save(const RunPosition& position,
                                     const GenomicBottleneck& bottleneck,
                                     const Strategy* strategy) {
  open_writer();
  std::vector<CheckpointSection> sections;
  const auto add = [&](const std::vector<StateEntry>& state, const std::string& prefix) {
    for (std::size_t i = 0; i < state.size(); ++i) {
      if (static_cast<int>(i % static_cast<std::size_t>(ranks.world)) != ranks.rank) continue;
      const at::Tensor value = state[i].value.to(at::kCPU).contiguous();
      const auto bytes = bytes_of(value);
      sections.push_back({prefix + state[i].name, {bytes.begin(), bytes.end()}});
    }
  };
  add(bottleneck.training_state(), "");
  if (position.kept_state) add(*position.kept_state, kKeptState);
  if (strategy) add(strategy->aux_state(), kStrategy);
  CheckpointFacts stored = facts;
  stored[kPosition] = position_text(position, steps);
  if (position.search && ranks.rank == 0) sections.push_back({kSearch, *position.search});
  if (position.best_file && ranks.rank == 0) sections.push_back({kBestFile, *position.best_file});
  writer->save(steps, std::move(sections), std::move(stored));
  saved_at = steps;
  last_save = Clock::now();
}

int TrainingCheckpoints::Impl::agree_on(bool& save) const {
  const int signal = interrupt_requested();
  if (!group) return signal;
  at::Tensor wishes = at::zeros({3}, at::kFloat);
  wishes[0] = save;
  wishes[1] = signal == SIGINT;
  wishes[2] = signal != 0 && signal != SIGINT;
  group->all_reduce(wishes).wait();
  save = wishes[0].item<float>() > 0;
  const int stop = wishes[2].item<float>() > 0 ? SIGTERM : wishes[1].item<float>() > 0 ? SIGINT : 0;
  if (stop != 0 && signal == 0) request_interrupt(stop);  // the exit status of all is alike
  return stop;
}

void TrainingCheckpoints::after_step_aside() {
  bool save = false;
  impl_->agree_on(save);
  throw_if_interrupted();
}

void TrainingCheckpoints::after_step(const RunPosition& position,
                                     const GenomicBottleneck& bottleneck,
                                     const Strategy* strategy) {
  Impl& self = *impl_;
  ++self.steps;
  const bool usr1 = take_checkpoint_request();
  const double minutes = std::chrono::duration<double>(Clock::now() - self.last_save).count() / 60;
  const CheckpointSettings& s = self.settings;
  const bool by_time = s.every_minutes > 0 && minutes >= s.every_minutes;
  const bool by_steps = s.every_steps > 0 && self.steps % s.every_steps == 0;
  bool save = usr1 || by_time;
  const int stop = self.agree_on(save);
  if (!self.writes()) {
    if (stop != 0) throw_if_interrupted();
    return;
  }
  if (save || by_steps || stop != 0) {
    // How the save before ended is known now.
    if (self.writer && self.try_to([&] { self.writer->finish(); }) && self.begun)
      self.failure.clear();
    self.begun = self.try_to([&] { self.save(position, bottleneck, strategy); });
  }
  if (stop == 0) return;
  const std::string folder = printable(self.settings.folder.string());
  if (self.writer && self.try_to([&] { self.writer->finish(); }) && self.saved_at == self.steps)
    throw Error(Errc::kInterrupted, "stopped on request; resume with `resume` " + folder);
  throw Error(
      Errc::kInterrupted,
      "stopped on request, and no checkpoint of this moment could be saved: " + self.failure);
}

void TrainingCheckpoints::save_before_failing(const RunPosition& position,
                                              const GenomicBottleneck& bottleneck,
                                              const Strategy* strategy) noexcept {
  Impl& self = *impl_;
  if (!self.writes() || self.group || self.steps == self.saved_at || self.steps == 0) return;
  try {
    // What an error has reached already (batch-norm statistics of a batch with NaN) is not saved
    // over a good checkpoint.
    if (!all_finite(bottleneck.training_state()) ||
        (strategy && !all_finite(strategy->aux_state())))
      return;
    self.save(position, bottleneck, strategy);
    self.writer->finish();
  } catch (const std::exception& error) {
    if (self.warn) self.warn(std::string("no checkpoint could be saved: ") + error.what());
  }
}

void TrainingCheckpoints::finish() {
  Impl& self = *impl_;
  if (self.writer) self.try_to([&] { self.writer->finish(); });
}

void TrainingCheckpoints::remove() {
  finish();
  impl_->writer.reset();
  if (!impl_->writes() || impl_->ranks.rank != 0) return;
  std::error_code ignored;
  for (const std::int64_t step : list_checkpoints(impl_->settings.folder)) {
    // Renamed first: killed meanwhile, one half removed would look like a damaged one.
    const fs::path complete = CheckpointWriter::folder_of(impl_->settings.folder, step);
    fs::path doomed = complete;
    doomed += ".tmp-" + impl_->ranks.run + "-done";
    fs::rename(complete, doomed, ignored);
    if (!ignored) fs::remove_all(doomed, ignored);
  }
  fs::remove(impl_->settings.folder / "lock", ignored);
  fs::remove(impl_->settings.folder, ignored);  // only where it is empty now
}

std::string model_digest(const std::vector<NamedParameter>& tensors) {
  Sha256 digest;
  const auto add = [&](const std::string& text) { digest.update(std::as_bytes(std::span(text))); };
  for (const NamedParameter& p : tensors) {
    add(p.info.name + "|" + std::string(dtype_name(p.info.dtype)) + "|" + p.tied_to);
    for (std::int64_t side : p.info.shape) {
      add(",");
      add(std::to_string(side));
    }
    if (!p.tied_to.empty()) continue;
    const at::Tensor value = p.tensor.detach().to(at::kCPU).contiguous();
    digest.update(bytes_of(value));
  }
  return to_hex(digest.finish());
}

std::string data_digest(const Data& data) {
  Sha256 digest;
  for (const Dataset* split : {&data.train, &data.test}) {
    const Batch all = split->everything();
    for (const at::Tensor& part : {all.inputs, all.targets}) {
      const at::Tensor value = part.to(at::kCPU).contiguous();
      digest.update(bytes_of(value));
    }
  }
  return to_hex(digest.finish());
}

}  // namespace gbcompress
