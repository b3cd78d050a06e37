#pragma once
/// Puts the tensors of an allocation into a file.

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "artifact/integers/packed_blocks.h"
#include "gbcompress/artifact.h"
#include "quantize/allocation/bit_allocation.h"
#include "quantize/kept_parts.h"

namespace gbcompress {

/// Whether making integers of all matrices once takes long.
inline bool takes_long(const BitAllocation& allocation) {
  return allocation.matrix_numbers() > 20'000'000;
}

class WeightsStore {
 public:
  /// Adds all tensors in their order; matrices have no integers before one of the others is called.
  /// @param folder  where large content waits
  /// @param kept    takes matrices, and has those of an earlier run; or null
  WeightsStore(const BitAllocation& allocation, const WeightsOptions& options,
               const std::filesystem::path& folder, std::string settings,
               KeptParts* kept = nullptr);

  /// As ArtifactWriter::set_digest().
  void set_digest(std::string digest) { writer_.set_digest(std::move(digest)); }

  /// As ArtifactWriter::set_layer().
  void set_layer(Layer layer) { writer_.set_layer(layer); }

  /// As ArtifactWriter::set_originals().
  void set_originals(PackedOriginals originals) { writer_.set_originals(std::move(originals)); }

  /// Integers of all matrices for the steps of x. @return bytes of the file
  std::int64_t place(double x);
  /// Makes steps of single matrices finer after place(x), those first whose steps a smaller x would
  /// change first, while the file has at most `wanted` bytes. @return bytes of the file
  std::int64_t fill(double x, std::int64_t wanted);
  /// Encodes about one twelfth of them at x. @return their bytes over the allocation's estimate, or
  /// nothing without a matrix to encode
  std::optional<double> trial(double x);
  /// The coarsest steps of which no matrix loses more than that.
  std::int64_t place_error(double asked);
  /// The squared error of all matrices together over their squares, without making a file of it.
  double total_error(double x);
  /// place(x), with some tensors a sixteenth of an octave coarser: what total_error(x) leaves of
  /// `most` is used up.
  std::int64_t place_total(double x, double most);

  /// Gives matrices the profile small where it pays, at the steps that were placed last; they need
  /// to be placed anew. Matrices with a rounding model keep theirs.
  /// @return the bytes that it saves, about
  double choose_profiles();

  /// Bytes of the file as things stand; before anything is placed, about those of all others.
  std::int64_t size() const { return writer_.size(); }
  const ArtifactWriter& writer() const noexcept { return writer_; }

 private:
  void place_one(std::size_t i, double x, int threads);
  /// A matrix whose step may become finer, and what that takes.
  struct Finer {
    std::size_t tensor;
    int distance;  ///< 64ths of an octave of x to where its step changes by itself
    double bytes;
  };
  std::vector<Finer> finer_steps(double x, int by) const;
  /// A tensor's bytes, packed; nothing where that is not known to be needed, or the writer packs
  /// them stripe by stripe.
  using Packed = std::optional<std::pair<std::vector<std::byte>, Packing>>;
  /// What changed since tensors of bases.
  struct Change {
    std::vector<TensorPiece> pieces;               ///< of match.pieces; else none
    std::vector<std::vector<std::byte>> sections;  ///< of each piece; else one
  };
  /// What is made of a tensor before it is added.
  struct Prepared {
    Packed packed;
    std::shared_ptr<const PlanesWriter> planes;  ///< of one that is packed stripe by stripe
    std::optional<Change> change;                ///< where that is smaller
  };
  Prepared prepare(const TensorAllocation& tensor) const;
  Prepared changed(const TensorAllocation& tensor) const;
  std::optional<std::vector<std::byte>> made_blocks(const TensorAllocation& tensor) const;
  std::optional<Change> changed_pieces(const TensorAllocation& tensor) const;
  void add(const TensorAllocation& tensor, Prepared prepared);
  void add_change(const TensorAllocation& tensor, Change change);
  /// What a piece of a tensor is the change since.
  std::span<const std::byte> source_of(const TensorPiece& piece, const TensorEntry& source) const;
  bool add_integers(const TensorAllocation& tensor, Packed& packed);
  bool add_large(const TensorEntry& source);
  bool add_whole(const TensorEntry& source, Packed& packed);
  bool add_levels(const TensorAllocation& tensor, Packed& packed);
  /// Adds integers that tell a tensor exactly, unless `packed` bytes are no more than they take.
  bool add_smaller(const TensorEntry& source, CodedValues values, std::size_t packed);
  bool add_vector(const TensorAllocation& tensor);
  /// Short floats, exact enough for the allocation; nothing where the tensor is to be stored as it
  /// is.
  std::optional<CodedValues> short_floats(const TensorAllocation& tensor,
                                          const std::vector<float>& numbers) const;
  /// @param sizes  [tensors] numbers of those that are taken, else 0
  void for_matrices(const std::vector<std::int64_t>& sizes,
                    const std::function<void(std::size_t, int)>& body);
  void for_matrices(const std::function<void(std::size_t, int)>& body);
  std::vector<std::int64_t> matrix_sizes() const;
  /// @param key  under which it is kept, or ""
  void put(std::size_t i, CodedValues values, const std::string& key = {});
  /// The same of packed integers. @param form  of the values, without integers
  void put_packed(std::size_t i, CodedValues form, const std::vector<PackedBlock>& blocks,
                  const std::string& key = {});
  /// What the matrix's integers take in stripes.
  double bytes_in_stripes(std::size_t i, const CodedValues& form,
                          const std::vector<PackedBlock>& blocks) const;
  /// What the integers depend on that are placed for that; "" where nothing is kept.
  /// @param target  "step" or "error"
  std::string key_of(std::size_t i, const char* target, double value) const;
  /// Puts what an earlier run kept, if there is some.
  bool put_kept(std::size_t i, const std::string& key);
  StepMatrix matrix_of(std::size_t i) const;
  /// What it saves to code that matrix with the profile small, about; nothing where it does not
  /// pay.
  std::optional<double> gain_of_small(std::size_t i, int threads) const;
  /// Stores a matrix exactly from here on.
  void put_exactly(std::size_t i);
  /// The step's integers and the relative squared error that decoding them gives; more than it
  /// where a row loses too much.
  StepMatrix::Chosen choose(const TensorAllocation& tensor, const StepMatrix& matrix, int step,
                            int threads) const;
  /// The coarsest step whose error is at most that, or nothing.
  std::optional<StepMatrix::Chosen> coarsest(const TensorAllocation& tensor,
                                             const StepMatrix& matrix, double max_error,
                                             int threads) const;
  StepMatrix::Chosen smallest(const TensorAllocation& tensor, const StepMatrix& matrix,
                              StepMatrix::Chosen best, double max_error) const;
  double total() const;
  void place_pieces(std::size_t i, int step, const std::string& key, int threads);
  /// A matrix that is rounded, and by what.
  struct Target {
    std::size_t tensor;
    const RoundingModel& model;
    std::vector<float> numbers;                ///< that its integers come near
    std::span<const float> mean, mean_before;  ///< of the inputs, and of the original model's
  };
  Target target_of(std::size_t i) const;
  /// place() of a matrix with a rounding model, and of the second of its pair.
  void place_calibrated(const Target& target, double x, int threads);
  /// Whether a matrix with a rounding model is rounded in pieces.
  bool rounds_pieces(std::size_t i) const;
  /// place_calibrated() of such a matrix.
  void place_calibrated_pieces(std::size_t i, double x, int threads);
  /// The coarsest step of which a matrix loses at most that.
  void place_within(std::size_t i, double asked, int threads);
  /// place() where layers are quantized one after another.
  std::int64_t place_in_sequence(double x);
  /// @param name  the first of the group as the model has it
  void place_group(const std::string& name, const std::vector<std::size_t>& group, double x);
  bool in_sequence(std::size_t i) const;
  /// Shows the model what was placed since the last call.
  void show_placed();
  /// A matrix as it was rounded; of a pair, both.
  struct Rounded {
    std::size_t tensor;
    CodedValues coded;
    std::vector<float> numbers;  ///< of the matrix
  };
  std::vector<Rounded> round_calibrated(const Target& target, double x,
                                        const std::vector<std::int32_t>& row_steps,
                                        int threads) const;
  /// Whether a row of what was rounded has outputs farther from its own than zeros have.
  bool is_worse_than_zeros(const RoundingModel& model, const std::vector<Rounded>& made,
                           const std::vector<std::vector<float>>& stored, std::size_t row) const;
  /// Offsets of the steps of rows where nothing has been rounded yet; empty: none.
  std::vector<std::int32_t> first_row_steps(const TensorAllocation& tensor, int step) const;
  /// What the mean error of a matrix adds to its bias.
  /// @param stored  what its integers stand for
  void correct_bias(const Target& target, const std::vector<float>& stored);
  void find_biases();
  void put_biases();

  const BitAllocation& allocation_;
  const WeightsOptions& options_;
  KeptParts* const kept_;
  ArtifactWriter writer_;
  std::mutex mutex_;
  std::vector<double> errors_;  ///< relative, of each matrix as it was chosen last
  std::vector<char> exact_;     ///< matrices that no step keeps
  std::vector<int> nudges_;     ///< added to the index of each matrix's step
  std::vector<CodecProfile> profiles_;
  std::vector<std::optional<int>> asked_;  ///< steps that place() gave matrices last
  bool counts_stripes_;                    ///< Placed::bytes is needed
  struct Placed {
    int step;
    double bytes;  ///< of stripes, where they are counted
  };
  std::vector<std::optional<Placed>> placed_;  ///< of matrices in lanes
  std::set<std::string> coded_vectors_;        ///< names of those that are short floats
  /// Of matrices with a mean input: the place of the bias, a vector of short floats.
  std::map<std::size_t, std::size_t> biases_;
  std::map<std::size_t, std::vector<float>> corrections_;  ///< of biases
  /// With WeightsOptions::sequential: tensors that were put since show_placed(), as they decode.
  std::map<std::size_t, std::vector<float>> shown_;
};

}  // namespace gbcompress
