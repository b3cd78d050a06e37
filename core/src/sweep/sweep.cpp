#include "gbcompress/compress.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>

#include "base/file.h"
#include "compress/check_options.h"
#include "gbcompress/error.h"
#include "model/model_snapshot.h"
#include "statistics/calibrate.h"
#include "sweep/controls.h"
#include "sweep/sweep_points.h"
#include "train/training_checkpoints.h"

namespace gbcompress {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr const char* kDenseFile = "dense.gbz";
constexpr const char* kDenseSetting = "float32";
constexpr int kRoundedBits[] = {8, 4};
std::string rounded_setting(int bits) { return std::to_string(bits) + " bits"; }
using Key = std::pair<std::string, std::string>;  ///< method, setting

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// The request of one point of the codec's curve.
struct Asked {
  const char* kind;  ///< "lambda", "ratio", "error"
  double value;
  std::string setting() const { return std::string(kind) + " " + number(value); }
  std::string file() const { return std::string(kind) + "-" + number(value) + ".gbz"; }
  std::string gnet_file() const { return "gnets-" + file(); }
  std::string gnet_setting() const { return "as " + setting(); }
};

std::vector<Asked> all_asked(const SweepOptions& options, const Data* data) {
  const bool trained = trains(options.compress, data);
  if (!options.lambdas.empty() + !options.ratios.empty() + !options.errors.empty() != 1)
    throw Error(Errc::kUsage, "a sweep takes one list: `lambdas`, `ratios` or `errors`");
  if (!options.lambdas.empty() && !trained)
    throw Error(Errc::kUsage,
                "`lambdas` needs data to train on, and epochs; give `data`, or `ratios` instead");
  if (!options.errors.empty() && trained)
    throw Error(Errc::kUsage,
                "`errors` is for sweeps without training; give `lambdas` or `ratios`");
  std::vector<Asked> asked;
  for (const auto& [kind, list] : {std::pair{"lambda", &options.lambdas},
                                   {"ratio", &options.ratios},
                                   {"error", &options.errors}})
    for (const double value : *list) {
      if (!(value > 0) || !std::isfinite(value))
        throw Error(Errc::kUsage, std::string("--") + kind + "s are numbers above 0");
      if (kind == std::string_view("ratio") && value <= 1)
        throw Error(Errc::kUsage,
                    "`ratios` must be above 1; compress with `mode` exact keeps every bit");
      asked.push_back({kind, value});
    }
  return asked;
}

/// A model's values and what is known of them, to begin a point with.
class Values {
 public:
  explicit Values(const Model& model) : values_(model), tensors_(model.tensors()) {
    for (std::size_t i = 0; i < tensors_.size(); ++i) tensors_[i].tensor = values_.values()[i];
  }
  void restore(Model& model) const {
    values_.restore(model);
    for (std::size_t i = 0; i < tensors_.size(); ++i) model.tensors()[i].info = tensors_[i].info;
  }
  const std::vector<NamedParameter>& tensors() const { return tensors_; }
  /// Of the model as it is now, matrices alone.
  double error(const Model& model) const {
    const at::NoGradGuard no_grad;
    double error = 0, squares = 0;
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      if (!is_matrix(tensors_[i])) continue;
      const at::Tensor was = tensors_[i].tensor.to(at::kDouble);
      error += (model.tensors()[i].tensor.to(at::kDouble) - was).square().sum().item<double>();
      squares += was.square().sum().item<double>();
    }
    return squares > 0 ? error / squares : 0;
  }

 private:
  ModelSnapshot values_;
  std::vector<NamedParameter> tensors_;
};

class Sweep {
 public:
  Sweep(Model& model, std::int64_t input_bytes, const Data* data, Model* teacher,
        const Registry& registry, const SweepOptions& options, const ProgressSink& progress,
        const SweepSink& finished, const SweepSink& begins)
      : model_(model),
        input_bytes_(input_bytes),
        data_(data),
        teacher_(teacher),
        registry_(registry),
        options_(options),
        progress_(progress),
        finished_(finished),
        begins_(begins),
        asked_(all_asked(options, data)),
        start_(model),
        group_(options.compress.group),
        points_(prepared(), agreed(facts()), files(), group_) {
    deal();
  }

  SweepReport run() {
    SweepReport report;
    report.input_bytes = input_bytes_;
    for (const NamedParameter& p : model_.tensors())
      if (p.trainable && p.tied_to.empty()) report.parameters += p.info.elements();
    const Values reference = dense();
    if (data_) report.metric = data_->metric;
    if (data_ && leads()) report.before = quality().value();
    for (const Asked& a : asked_)
      if (mine(kQuantizedMethod, a.setting())) codec_point(a, reference);
    for (const Asked& a : asked_)
      if (mine(kGNetMethod, a.gnet_setting())) gnet_point(a, bytes_of(a), reference);
    for (const int bits : kRoundedBits)
      if (mine(kRoundingMethod, rounded_setting(bits)))
        control_point(kRoundingMethod, rounded_setting(bits), reference,
                      [&] { return rounded_control(reference.tensors(), bits); });
    std::optional<FactorControl> factors;  // decomposing takes a while; only if there is need
    for (const Asked& a : asked_)
      if (mine(kFactorMethod, a.gnet_setting()))
        control_point(kFactorMethod, a.gnet_setting(), reference, [&] {
          if (!factors) factors.emplace(reference.tensors());
          return factors->control(factors->part_for(bytes_of(a)));
        });
    if (leads()) {
      for (const Key& key : keys_) points_.wait_for(key.first, key.second);
      points_.conclude(keys_);
    }
    start_.restore(model_);
    report.points = points_.all();
    report.computed = static_cast<std::int64_t>(owners_.size());
    return report;
  }

 private:
  fs::path prepared() const {
    std::error_code code;
    fs::create_directories(options_.folder, code);
    if (!fs::is_directory(options_.folder, code))
      throw Error(Errc::kIo, printable(options_.folder.string()) +
                                 " is no folder and cannot be made; name another one");
    check_writable(options_.folder / "points.jsonl", true);
    return options_.folder;
  }
  CheckpointFacts facts() const {
    CheckpointFacts facts = options_.compress.facts;
    facts["model"] = model_digest(model_.tensors());
    facts["model bytes"] = std::to_string(input_bytes_);
    facts["from scratch"] = options_.from_scratch ? "yes" : "no";
    facts["data"] = data_ ? data_digest(*data_) : "none";
    return facts;
  }
  /// All ranks have the same ones, and the same points before them.
  CheckpointFacts agreed(CheckpointFacts facts) const {
    if (!group_) return facts;
    std::vector<Fact> shared;
    for (const auto& [name, value] : facts) shared.push_back({name, value});
    std::string points;
    for (const Asked& a : asked_) points += (points.empty() ? "" : ", ") + a.setting();
    shared.push_back({"the points", points});
    group_->agree(shared);
    return facts;
  }
  std::vector<std::string> files() const {
    std::vector<std::string> files;
    if (options_.from_scratch) files.push_back(kDenseFile);
    for (const Asked& a : asked_) files.insert(files.end(), {a.file(), a.gnet_file()});
    return files;
  }
  /// Points that are not there go round the ranks; all ranks see the same ones, since none has
  /// begun. A model's first training is rank 0's, and all wait for it.
  void deal() {
    if (options_.from_scratch) keys_.emplace_back(kDenseMethod, kDenseSetting);
    for (const Asked& a : asked_) keys_.emplace_back(kQuantizedMethod, a.setting());
    for (const Asked& a : asked_) keys_.emplace_back(kGNetMethod, a.gnet_setting());
    for (const int bits : kRoundedBits) keys_.emplace_back(kRoundingMethod, rounded_setting(bits));
    for (const Asked& a : asked_) keys_.emplace_back(kFactorMethod, a.gnet_setting());
    int next = 0;
    for (const Key& key : keys_)
      if (!points_.find(key.first, key.second))
        owners_[key] = next++ % (group_ ? group_->world() : 1);
    if (group_) group_->barrier();  // no rank begins before all have looked
  }
  bool leads() const { return !group_ || group_->rank() == 0; }
  bool mine(const std::string& method, const std::string& setting) const {
    const auto owner = owners_.find({method, setting});
    return owner != owners_.end() && owner->second == (group_ ? group_->rank() : 0);
  }
  std::int64_t bytes_of(const Asked& asked) {
    return points_.wait_for(kQuantizedMethod, asked.setting()).bytes;
  }
  std::optional<double> quality() const {
    if (!data_) return std::nullopt;
    return evaluate(model_, data_->test, data_->metric, progress_);
  }

  void begin(const SweepPoint& point) {
    throw_if_interrupted();
    if (begins_) begins_(point);
  }
  void done(SweepPoint point, Clock::time_point start) {
    point.ratio = static_cast<double>(input_bytes_) / static_cast<double>(point.bytes);
    point.seconds = seconds_since(start);
    points_.add(point);
    if (finished_) finished_(point);
  }

  /// One `.gbz`. @param reference  what the error is of; null: nothing yet
  void file_point(const char* method, const std::string& setting, const std::string& file,
                  CompressOptions run, const Values* reference) {
    SweepPoint point{.method = method, .setting = setting};
    point.file = file;
    begin(point);
    start_.restore(model_);
    const auto start = Clock::now();
    run.output = options_.folder / file;
    run.overwrite = true;
    run.facts["sweep method"] = method;
    run.facts["sweep point"] = setting;
    run.checkpoints.folder = run.output.string() + ".checkpoints";
    run.checkpoints.resume.reset();
    if (!list_checkpoints(run.checkpoints.folder).empty())
      run.checkpoints.resume = run.checkpoints.folder;
    const CompressionReport report =
        compress(model_, input_bytes_, data_, teacher_, registry_, run, progress_);
    point.bytes = report.output_bytes;
    if (report.metric) point.metric = report.after;
    if (reference) point.weight_error = reference->error(model_);
    point.target_met = report.target_met;
    done(std::move(point), start);
  }

  CompressOptions base(WeightMode mode) const {
    CompressOptions run = options_.compress;
    run.target = {};
    run.group = nullptr;
    run.bottleneck.mode = mode;
    // Points of a curve are of one method.
    run.effort.reset();
    if (mode == WeightMode::kQuantized) run.effort = Effort::kMax;
    return run;
  }

  /// What controls begin with; the model then has its values.
  Values dense() {
    if (!options_.from_scratch) return start_;
    if (mine(kDenseMethod, kDenseSetting))
      file_point(kDenseMethod, kDenseSetting, kDenseFile, base(WeightMode::kExact), nullptr);
    points_.wait_for(kDenseMethod, kDenseSetting);
    start_.restore(model_);
    load_tensors(model_, expand(ArtifactReader::open(options_.folder / kDenseFile), registry_));
    return Values(model_);
  }

  CompressOptions codec_run(const Asked& asked) const {
    CompressOptions run = base(WeightMode::kQuantized);
    if (asked.kind == std::string("lambda")) {
      run.train.rate.lambda = asked.value;
      run.choose.lambda = false;
    }
    if (asked.kind == std::string("ratio")) run.target.ratio = asked.value;
    if (asked.kind == std::string("error")) run.target.max_error = asked.value;
    return run;
  }

  void codec_point(const Asked& asked, const Values& reference) {
    file_point(kQuantizedMethod, asked.setting(), asked.file(), codec_run(asked), &reference);
  }

  void gnet_point(const Asked& asked, std::int64_t bytes, const Values& reference) {
    CompressOptions run = base(WeightMode::kGenerated);
    run.target.max_bytes = std::max(bytes, kSmallestFile);
    file_point(kGNetMethod, asked.gnet_setting(), asked.gnet_file(), std::move(run), &reference);
  }

  template <typename Make>
  void control_point(const char* method, const std::string& setting, const Values& reference,
                     const Make& make) {
    SweepPoint point{.method = method, .setting = setting};
    begin(point);
    const auto start = Clock::now();
    const Control control = make();
    reference.restore(model_);
    {
      const at::NoGradGuard no_grad;
      for (std::size_t i = 0; i < control.values.size(); ++i)
        if (model_.tensors()[i].tied_to.empty())
          model_.tensors()[i].tensor.copy_(control.values[i]);
    }
    point.bytes = static_cast<std::int64_t>(control.bytes.size());
    point.metric = quality();
    point.weight_error = reference.error(model_);
    done(std::move(point), start);
  }

  Model& model_;
  const std::int64_t input_bytes_;
  const Data* const data_;
  Model* const teacher_;
  const Registry& registry_;
  const SweepOptions& options_;
  const ProgressSink& progress_;
  const SweepSink &finished_, &begins_;
  const std::vector<Asked> asked_;
  const Values start_;
  Group* const group_;
  SweepPoints points_;
  std::vector<Key> keys_;      ///< of all points, in the order of one process
  std::map<Key, int> owners_;  ///< ranks of those that are computed now
};

}  // namespace

SweepReport sweep(Model& model, std::int64_t input_bytes, const Data* data, Model* teacher,
                  const Registry& registry, const SweepOptions& options,
                  const ProgressSink& progress, const SweepSink& finished,
                  const SweepSink& begins) {
  return Sweep(model, input_bytes, data, teacher, registry, options, progress, finished, begins)
      .run();
}

}  // namespace gbcompress
