// The two files of a checkpoint.
#include "checkpoint/manifest.h"
#include "checkpoint/shard.h"
#include "fuzz/memory_file.h"
#include "fuzz/mutators.h"
#include "fuzz/target.h"

namespace gbcompress::fuzz {
namespace {

void run_manifest(Input input) {
  const MemoryFile file(input);
  const Manifest manifest = read_manifest(file.path());
  encode_manifest(manifest);
}

std::vector<Bytes> manifest_seeds() {
  return {encode_manifest({}),
          encode_manifest({.step = 1200,
                           .facts = {{"config", "abc"}, {"model", "x\n"}},
                           .shards = {{100, std::string(64, 'a')}, {2, std::string(64, '0')}},
                           .identity = {}})};
}

void run_shard(Input input) {
  const MemoryFile file(input);
  // The seal is what an attacker who can write the shard writes into the manifest as well.
  const ShardSeal seal = read_shard_seal(file.path());
  read_shard_table(file.path(), 1, 7, seal);
}

std::vector<Bytes> shard_seeds() {
  const Bytes one = to_bytes("section"), none;
  const std::vector<CheckpointSection> sections = {{"theta", one}, {"empty", none}, {"m.1", one}};
  Bytes whole = encode_shard_head(1, 7, sections);
  for (const CheckpointSection& section : sections)
    whole.insert(whole.end(), section.bytes.begin(), section.bytes.end());
  return {encode_shard_head(1, 7, {}), whole};
}

}  // namespace

const std::vector<Target> checkpoint_targets = {
    {"checkpoint_manifest", run_manifest, manifest_seeds, mutate_manifest},
    {"checkpoint_shard", run_shard, shard_seeds, mutate_shard},
};

}  // namespace gbcompress::fuzz
