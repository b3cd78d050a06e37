#include "gbcompress/ranks.h"

#include <gtest/gtest.h>

#include <ctime>
#include <map>
#include <nlohmann/json.hpp>

#include "ranks/launch/launch_reader.h"
#include "support/files.h"

namespace gbcompress {
namespace {

using testing::TempDir;
using Variables = std::map<std::string, std::string>;

Environment environment_of(const Variables& variables) {
  return [variables](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

Launch read(const Variables& variables, const LaunchFlags& flags = {}) {
  return read_launch(flags, environment_of(variables));
}

Variables with(Variables base, const Variables& changes) {
  for (const auto& [name, value] : changes) base[name] = value;
  return base;
}

const Variables kTorchrun = {{"RANK", "3"},
                             {"WORLD_SIZE", "8"},
                             {"LOCAL_RANK", "1"},
                             {"LOCAL_WORLD_SIZE", "2"},
                             {"MASTER_ADDR", "node0"},
                             {"MASTER_PORT", "29511"},
                             {"TORCHELASTIC_RUN_ID", "job"},
                             {"TORCHELASTIC_RESTART_COUNT", "2"},
                             {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
const Variables kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "1"},
                            {"OMPI_COMM_WORLD_SIZE", "4"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                            {"PMIX_NAMESPACE", "prterun-host-1@1"}};
const Variables kPmi = {
    {"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "2"}};
const Variables kSlurm = {{"SLURM_STEP_ID", "0"},
                          {"SLURM_JOB_ID", "77"},
                          {"SLURM_PROCID", "5"},
                          {"SLURM_NTASKS", "6"},
                          {"SLURM_LOCALID", "2"},
                          {"SLURM_NNODES", "2"},
                          {"SLURM_JOB_NODELIST", "gpu[07-08],login"}};

TEST(Launch, NobodyMeansOneProcess) {
  const Launch launch = read({});
  EXPECT_EQ(launch.launcher, Launcher::kSingle);
  EXPECT_EQ(launch.rank, 0);
  EXPECT_EQ(launch.world, 1);
  EXPECT_EQ(launch.local_rank, 0);
  EXPECT_FALSE(launch.has_launcher);
  EXPECT_TRUE(launch.on_one_machine());
  EXPECT_EQ(launch.master_host, "");
}

TEST(Launch, Torchrun) {
  const Launch launch = read(kTorchrun);
  EXPECT_EQ(launch.launcher, Launcher::kTorchrun);
  EXPECT_EQ(launch.rank, 3);
  EXPECT_EQ(launch.world, 8);
  EXPECT_EQ(launch.local_rank, 1);
  EXPECT_EQ(launch.local_world, 2);
  EXPECT_EQ(launch.master_host, "node0");
  EXPECT_EQ(launch.master_port, 29511);
  EXPECT_TRUE(launch.agent_store);
  EXPECT_TRUE(launch.has_launcher);
  EXPECT_FALSE(launch.on_one_machine());
  const Launch again = read(with(kTorchrun, {{"TORCHELASTIC_RESTART_COUNT", "3"}}));
  EXPECT_NE(again.job, launch.job);
  EXPECT_FALSE(read(with(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "False"}})).agent_store);
  // By hand: nobody stays who could be watched.
  EXPECT_FALSE(read(with(kTorchrun, {{"TORCHELASTIC_RUN_ID", ""}})).has_launcher);
}

TEST(Launch, OpenMpiMeetsOnOneMachineByItself) {
  const Launch launch = read(kOpenMpi);
  EXPECT_EQ(launch.launcher, Launcher::kOpenMpi);
  EXPECT_EQ(launch.rank, 1);
  EXPECT_EQ(launch.world, 4);
  EXPECT_EQ(launch.master_host, "127.0.0.1");
  EXPECT_GE(launch.master_port, 20'000);
  EXPECT_LT(launch.master_port, 30'000);
  // All ranks of a job choose one port, other jobs another.
  EXPECT_EQ(read(with(kOpenMpi, {{"OMPI_COMM_WORLD_RANK", "0"}})).master_port, launch.master_port);
  EXPECT_NE(read(with(kOpenMpi, {{"PMIX_NAMESPACE", "prterun-host-2@1"}})).master_port,
            launch.master_port);
  GBC_EXPECT_ERROR(read(with(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}})), Errc::kUsage,
                   "MASTER_ADDR is not set");
  const Launch spread =
      read(with(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}, {"MASTER_ADDR", "a"}}));
  EXPECT_EQ(spread.master_host, "a");
}

TEST(Launch, Pmi) {
  const Launch launch = read(kPmi);
  EXPECT_EQ(launch.launcher, Launcher::kPmi);
  EXPECT_EQ(launch.world, 2);
  EXPECT_EQ(launch.master_host, "127.0.0.1");
  EXPECT_EQ(launch.master_port, 29500);
  EXPECT_EQ(read(with(kPmi, {{"MASTER_PORT", "1234"}})).master_port, 1234);
}

TEST(Launch, SlurmInsideAStepOnly) {
  const Launch launch = read(kSlurm);
  EXPECT_EQ(launch.launcher, Launcher::kSlurm);
  EXPECT_EQ(launch.rank, 5);
  EXPECT_EQ(launch.world, 6);
  EXPECT_EQ(launch.local_rank, 2);
  EXPECT_EQ(launch.local_world, std::nullopt);
  EXPECT_EQ(launch.master_host, "gpu07");
  EXPECT_EQ(read(with(kSlurm, {{"SLURM_STEP_NODELIST", "gpu08"}})).master_host, "gpu08");
  EXPECT_EQ(read(with(kSlurm, {{"SLURM_STEP_NUM_TASKS", "7"}})).world, 7);
  const Launch one = read(with(kSlurm, {{"SLURM_NNODES", "1"}}));
  EXPECT_EQ(one.master_host, "127.0.0.1");
  EXPECT_EQ(one.local_world, 6);
  Variables batch = kSlurm;
  batch.erase("SLURM_STEP_ID");
  EXPECT_EQ(read(batch).launcher, Launcher::kSingle);
  EXPECT_EQ(read(batch).world, 1);
  for (const char* special : {"4294967291", "4294967290", "4294967292"})
    EXPECT_EQ(read(with(kSlurm, {{"SLURM_STEP_ID", special}})).launcher, Launcher::kSingle)
        << special;
  GBC_EXPECT_ERROR(read(with(kSlurm, {{"SLURM_STEP_ID", "x"}})), Errc::kUsage, "SLURM_STEP_ID");
}

TEST(Launch, Precedence) {
  Variables all;
  for (const Variables* some : {&kSlurm, &kPmi, &kOpenMpi, &kTorchrun})
    all.insert(some->begin(), some->end());
  LaunchFlags flags;
  flags.rank = "0";
  flags.world = "2";
  flags.master = "[::1]:99";
  const Launch by_flags = read(all, flags);
  EXPECT_EQ(by_flags.launcher, Launcher::kFlags);
  EXPECT_EQ(by_flags.master_host, "::1");
  EXPECT_EQ(by_flags.master_port, 99);
  EXPECT_FALSE(by_flags.agent_store);
  EXPECT_EQ(read(all).launcher, Launcher::kTorchrun);
  for (const auto& [name, _] : kTorchrun)
    if (!name.starts_with("MASTER")) all.erase(name);
  EXPECT_EQ(read(all).launcher, Launcher::kOpenMpi);
  for (const auto& [name, _] : kOpenMpi) all.erase(name);
  EXPECT_EQ(read(all).launcher, Launcher::kPmi);
  for (const auto& [name, _] : kPmi) all.erase(name);
  EXPECT_EQ(read(all).launcher, Launcher::kSlurm);
}

struct Wrong {
  Variables variables;
  std::string sentence;
};

TEST(Launch, WrongInputIsOneClearSentence) {
  const std::vector<Wrong> cases = {
      {{{"RANK", "0"}}, "RANK is set without WORLD_SIZE"},
      {{{"WORLD_SIZE", "2"}}, "WORLD_SIZE is set without RANK"},
      {with(kTorchrun, {{"RANK", "8"}}), "ranks count from 0 to 7"},
      {with(kTorchrun, {{"RANK", "-1"}}), "RANK is -1"},
      {with(kTorchrun, {{"RANK", "one"}}), "\"one\", which is not an integer"},
      {with(kTorchrun, {{"RANK", "1.0"}}), "not an integer"},
      {with(kTorchrun, {{"RANK", " 1"}}), "not an integer"},
      {with(kTorchrun, {{"RANK", "+1"}}), "not an integer"},
      {with(kTorchrun, {{"RANK", "99999999999999999999"}}), "use 0 to 65535"},
      {with(kTorchrun, {{"WORLD_SIZE", "0"}}), "WORLD_SIZE is 0"},
      {with(kTorchrun, {{"WORLD_SIZE", "65537"}}), "use 1 to 65536"},
      {with(kTorchrun, {{"WORLD_SIZE", "\x1b[2J"}}), "\\x1b"},
      {with(kTorchrun, {{"LOCAL_RANK", "2"}}), "LOCAL_RANK is 2 but LOCAL_WORLD_SIZE is 2"},
      {with(kTorchrun, {{"LOCAL_WORLD_SIZE", "9"}}), "more than the 8 ranks"},
      {with(kTorchrun, {{"MASTER_PORT", "0"}}), "MASTER_PORT is 0; use 1 to 65535"},
      {with(kTorchrun, {{"MASTER_PORT", "65536"}}), "use 1 to 65535"},
      {with(kTorchrun, {{"MASTER_PORT", "http"}}), "MASTER_PORT is \"http\""},
      {with(kTorchrun, {{"MASTER_PORT", ""}}), "MASTER_PORT is not set"},
      {with(kTorchrun, {{"MASTER_ADDR", ""}}), "MASTER_ADDR is not set"},
      {with(kTorchrun, {{"MASTER_ADDR", "a b"}}), "no name or address"},
      {with(kTorchrun, {{"MASTER_ADDR", std::string(300, 'a')}}), "no name or address"},
      {with(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "maybe"}}), "use True or False"},
      {{{"OMPI_COMM_WORLD_RANK", "0"}}, "OMPI_COMM_WORLD_RANK is set without"},
      {{{"PMI_SIZE", "4"}}, "PMI_SIZE is set without PMI_RANK"},
      {{{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "0"}}, "SLURM_PROCID is set without SLURM_NTASKS"},
      {with(kSlurm, {{"SLURM_JOB_NODELIST", "gpu[07"}}), "malformed"},
  };
  for (const Wrong& wrong : cases) {
    try {
      read(wrong.variables);
      ADD_FAILURE() << "accepted: " << wrong.sentence;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::kUsage);
      EXPECT_NE(std::string(error.what()).find(wrong.sentence), std::string::npos) << error.what();
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    }
  }
}

TEST(Launch, WrongFlags) {
  const auto flags = [](std::optional<std::string> rank, std::optional<std::string> world,
                        std::optional<std::string> master, std::optional<std::string> local = {}) {
    LaunchFlags result;
    result.rank = rank;
    result.world = world;
    result.master = master;
    result.local_rank = local;
    return result;
  };
  const std::string here = "127.0.0.1:1";
  EXPECT_EQ(read({}, flags("1", "2", here)).rank, 1);
  EXPECT_EQ(read({}, flags("0", "1", {})).world, 1);
  EXPECT_EQ(read({{"MASTER_ADDR", "a"}, {"MASTER_PORT", "7"}}, flags("1", "2", {})).master_port, 7);
  for (const LaunchFlags& wrong :
       {flags("1", {}, here), flags({}, "2", here), flags({}, {}, here), flags({}, {}, {}, "0"),
        flags("2", "2", here), flags("1", "2", {}), flags("1", "2", "127.0.0.1"),
        flags("1", "2", "127.0.0.1:"), flags("1", "2", ":5"), flags("1", "2", "a:65536"),
        flags("1", "2", "a:5x"), flags("1", "2", here, "-1")})
    GBC_EXPECT_ERROR(read({}, wrong), Errc::kUsage, "");
}

TEST(Launch, FirstHostOfAList) {
  const std::map<std::string, std::string> lists = {{"a", "a"},
                                                    {"a,b", "a"},
                                                    {"gpu[003-010,012],login1", "gpu003"},
                                                    {"gpu[5,7]-ib", "gpu5-ib"},
                                                    {"r[1-2]n[30-31]", "r1n30"}};
  for (const auto& [list, first] : lists) EXPECT_EQ(launch::first_host(list), first) << list;
  for (const char* bad : {"", ",a", "a[", "a[]", "a[1", "a]1", "a[x-y]", "a[-3]"})
    GBC_EXPECT_ERROR(launch::first_host(bad), Errc::kUsage, "");
}

TEST(Launch, Gpus) {
  Launch launch = read(kTorchrun);
  EXPECT_EQ(pick_gpu(launch, 2), 1);
  EXPECT_EQ(pick_gpu(launch, 8), 1);
  GBC_EXPECT_ERROR(pick_gpu(launch, 1), Errc::kUsage, "shows 1 GPU for at least 2 ranks");
  GBC_EXPECT_ERROR(pick_gpu(launch, 0), Errc::kUsage, "has none");
  launch.local_rank.reset();
  GBC_EXPECT_ERROR(pick_gpu(launch, 8), Errc::kUsage, "give `local_rank`");
}

TEST(ErrorFile, HoldsWhatTorchrunReads) {
  const TempDir folder;
  const std::string path = (folder / "error.json").string();
  EXPECT_FALSE(write_error_file("text", environment_of({})));
  const auto before = std::time(nullptr);
  // A second error replaces the first, as after a restart.
  for (const std::string text : {"first", "a \"quoted\" \xff text\n"})
    EXPECT_TRUE(write_error_file(text, environment_of({{"TORCHELASTIC_ERROR_FILE", path}})));
  const auto json = nlohmann::json::parse(testing::get_file(path));
  EXPECT_EQ(json.at("message").at("message"), "a \"quoted\" \\xff text\\x0a");
  const auto& extra = json.at("message").at("extraInfo");
  EXPECT_EQ(extra.at("py_callstack"), json.at("message").at("message"));
  EXPECT_GE(std::stoll(extra.at("timestamp").get<std::string>()), before);
  EXPECT_FALSE(
      write_error_file("text", environment_of({{"TORCHELASTIC_ERROR_FILE", "/nonexistent/a/b"}})));
}

}  // namespace
}  // namespace gbcompress
