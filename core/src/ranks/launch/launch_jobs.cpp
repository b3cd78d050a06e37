// Launchers that know ranks but no place to meet: Open MPI, PMI, Slurm.
#include "gbcompress/error.h"
#include "ranks/launch/launch_reader.h"

namespace gbcompress::launch {
namespace {

constexpr const char* kLoopback = "127.0.0.1";
// slurm.h: step numbers from here up stand for the batch script, an interactive shell and the like,
// which are one process however many tasks the job has.
constexpr std::uint64_t kFirstSpecialStep = 0xfffffff0;

std::string host_of(const Launch& launch) { return launch.on_one_machine() ? kLoopback : ""; }

}  // namespace

bool read_open_mpi(const Reader& reader, Launch& into) {
  if (!read_pair(reader, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", into)) return false;
  into.launcher = Launcher::kOpenMpi;
  into.has_launcher = true;
  read_local(reader, "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", into);
  into.job =
      reader.text("PMIX_NAMESPACE").value_or(reader.text("OMPI_MCA_ess_base_jobid").value_or(""));
  choose_master(reader, host_of(into), into.job, into);
  return true;
}

bool read_pmi(const Reader& reader, Launch& into) {
  if (!read_pair(reader, "PMI_RANK", "PMI_SIZE", into)) return false;
  into.launcher = Launcher::kPmi;
  into.has_launcher = true;
  read_local(reader, "MPI_LOCALRANKID", "MPI_LOCALNRANKS", into);
  // Hydra's proxy: one a machine and job, so only ranks of one machine may take it for an identity.
  if (into.on_one_machine()) into.job = reader.text("PMI_PORT").value_or("");
  choose_master(reader, host_of(into), into.job, into);
  return true;
}

bool read_slurm(const Reader& reader, Launch& into) {
  // A batch script has SLURM_PROCID=0 and the job's SLURM_NTASKS but is no rank of anything.
  const auto step = reader.text("SLURM_STEP_ID");
  if (!step) return false;
  std::uint64_t number = 0;
  for (const char digit : *step) {
    if (digit < '0' || digit > '9' || number > kFirstSpecialStep)
      throw Error(Errc::kUsage, "SLURM_STEP_ID is \"" + printable(step->substr(0, 64)) +
                                    "\", which is no number of a step");
    number = number * 10 + static_cast<std::uint64_t>(digit - '0');
  }
  if (number >= kFirstSpecialStep) return false;
  // The step's own number of tasks, where this Slurm says it: srun may start fewer than the job
  // has.
  const bool own = reader.has("SLURM_STEP_NUM_TASKS");
  if (!read_pair(reader, "SLURM_PROCID", own ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS", into))
    return false;
  into.launcher = Launcher::kSlurm;
  into.has_launcher = true;
  into.local_rank = reader.number("SLURM_LOCALID", 0, kMaxWorld - 1);
  const char* nodes = reader.has("SLURM_STEP_NUM_NODES") ? "SLURM_STEP_NUM_NODES" : "SLURM_NNODES";
  if (reader.number(nodes, 1, kMaxWorld) == 1) into.local_world = into.world;
  into.job = reader.text("SLURM_JOB_ID").value_or("") + "." + *step;
  std::string host = host_of(into);
  if (host.empty() && !reader.has("MASTER_ADDR")) {
    auto list = reader.text("SLURM_STEP_NODELIST");
    if (!list) list = reader.text("SLURM_JOB_NODELIST");
    if (list) host = first_host(*list);
  }
  choose_master(reader, host, into.job, into);
  return true;
}

std::string first_host(const std::string& list) {
  const auto refuse = [&]() -> Error {
    return {Errc::kUsage, "the list of machines \"" + printable(list.substr(0, 64)) +
                              "\" is malformed; set MASTER_ADDR to the machine of rank 0"};
  };
  std::string host;
  for (std::size_t i = 0; i < list.size() && list[i] != ','; ++i) {
    if (list[i] == ']') throw refuse();
    if (list[i] != '[') {
      host += list[i];
      continue;
    }
    const std::size_t close = list.find(']', i);
    const std::size_t stop = list.find_first_of("-,]", i);
    if (close == std::string::npos || stop == i + 1) throw refuse();
    const std::string number = list.substr(i + 1, stop - i - 1);
    if (number.find_first_not_of("0123456789") != std::string::npos) throw refuse();
    host += number;
    i = close;
  }
  if (host.empty()) throw refuse();
  return host;
}

}  // namespace gbcompress::launch
