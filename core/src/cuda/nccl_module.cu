// NCCL's C functions behind the table of nccl_module.h. Only the header is needed to build this.
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <nccl.h>

#include <cstring>
#include <list>
#include <mutex>
#include <string>

#include "cuda/nccl_module.h"
#include "gbcompress/version.h"

namespace gbcompress::cuda {
namespace {

static_assert(sizeof(ncclUniqueId) == kNcclIdBytes);

/// The functions that are used, as the header declares them.
struct Library {
  decltype(&ncclGetVersion) get_version;
  decltype(&ncclGetUniqueId) get_unique_id;
  decltype(&ncclCommInitRankConfig) comm_init;
  decltype(&ncclCommGetAsyncError) comm_async_error;
  decltype(&ncclCommAbort) comm_abort;
  decltype(&ncclCommDestroy) comm_destroy;
  decltype(&ncclGetErrorString) error_string;
  decltype(&ncclAllReduce) all_reduce;
  decltype(&ncclBroadcast) broadcast;
  decltype(&ncclAllGather) all_gather;
  decltype(&ncclSend) send;
  decltype(&ncclRecv) receive;
  decltype(&ncclGroupStart) group_start;
  decltype(&ncclGroupEnd) group_end;
};
Library nccl;

/// In calls that do not block, "in progress" is how most of them succeed.
const char* said(ncclResult_t result) {
  if (result == ncclSuccess || result == ncclInProgress) return nullptr;
  return nccl.error_string(result);
}

const char* said(cudaError_t error) {
  if (error == cudaSuccess) return nullptr;
  cudaGetLastError();  // the next call must not report this one again
  return cudaGetErrorString(error);
}

/// Texts that are made, kept for ever as the table promises.
const char* kept(const std::string& text) {
  static std::list<std::string> texts;
  return texts.emplace_back(text).c_str();
}

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

const char* load(std::int32_t* runtime) {
  static std::mutex mutex;
  static void* library = nullptr;
  const std::lock_guard lock(mutex);
  if (!library) {
    void* opened = ::dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!opened) {
      const char* reason = ::dlerror();
      return kept(reason ? reason : "libnccl.so.2 cannot be opened");
    }
    if (!find(opened, "ncclGetVersion", nccl.get_version) ||
        !find(opened, "ncclGetUniqueId", nccl.get_unique_id) ||
        !find(opened, "ncclCommInitRankConfig", nccl.comm_init) ||
        !find(opened, "ncclCommGetAsyncError", nccl.comm_async_error) ||
        !find(opened, "ncclCommAbort", nccl.comm_abort) ||
        !find(opened, "ncclCommDestroy", nccl.comm_destroy) ||
        !find(opened, "ncclGetErrorString", nccl.error_string) ||
        !find(opened, "ncclAllReduce", nccl.all_reduce) ||
        !find(opened, "ncclBroadcast", nccl.broadcast) ||
        !find(opened, "ncclAllGather", nccl.all_gather) || !find(opened, "ncclSend", nccl.send) ||
        !find(opened, "ncclRecv", nccl.receive) ||
        !find(opened, "ncclGroupStart", nccl.group_start) ||
        !find(opened, "ncclGroupEnd", nccl.group_end)) {
      const char* reason = ::dlerror();
      return kept(reason ? reason : "it lacks a function of NCCL");
    }
    library = opened;  // never closed: its threads may run
  }
  int version = 0;
  const char* error = said(nccl.get_version(&version));
  *runtime = version;
  return error;
}

const char* new_id(void* id) {
  ncclUniqueId made;
  const char* error = said(nccl.get_unique_id(&made));
  if (!error) std::memcpy(id, &made, sizeof made);
  return error;
}

const char* open(void** comm, const void* id, std::int32_t rank, std::int32_t world) {
  ncclUniqueId of_rank_0;
  std::memcpy(&of_rank_0, id, sizeof of_rank_0);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t made = nullptr;
  const char* error = said(nccl.comm_init(&made, world, of_rank_0, rank, &config));
  *comm = made;
  return error;
}

const char* busy(void* comm, bool* answer) {
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = nccl.comm_async_error(static_cast<ncclComm_t>(comm), &state);
  *answer = state == ncclInProgress;
  if (const char* error = said(asked)) return error;
  return said(state);
}

const char* all_reduce(void* comm, float* data, std::int64_t floats, void* stream) {
  return said(nccl.all_reduce(data, data, static_cast<std::size_t>(floats), ncclFloat32, ncclSum,
                              static_cast<ncclComm_t>(comm), static_cast<cudaStream_t>(stream)));
}

const char* broadcast(void* comm, void* data, std::int64_t bytes, std::int32_t from, void* stream) {
  return said(nccl.broadcast(data, data, static_cast<std::size_t>(bytes), ncclUint8, from,
                             static_cast<ncclComm_t>(comm), static_cast<cudaStream_t>(stream)));
}

const char* all_gather(void* comm, const void* mine, void* all, std::int64_t bytes, void* stream) {
  return said(nccl.all_gather(mine, all, static_cast<std::size_t>(bytes), ncclUint8,
                              static_cast<ncclComm_t>(comm), static_cast<cudaStream_t>(stream)));
}

const char* exchange(void* comm, const float* out, const std::int64_t* sent, float* in,
                     const std::int64_t* received, std::int32_t world, void* stream) {
  const auto to = static_cast<ncclComm_t>(comm);
  const auto queue = static_cast<cudaStream_t>(stream);
  if (const char* error = said(nccl.group_start())) return error;
  const char* failed = nullptr;
  for (std::int32_t r = 0; r < world && !failed; ++r) {
    if (sent[r] > 0)
      failed = said(nccl.send(out, static_cast<std::size_t>(sent[r]), ncclFloat32, r, to, queue));
    if (received[r] > 0 && !failed)
      failed =
          said(nccl.receive(in, static_cast<std::size_t>(received[r]), ncclFloat32, r, to, queue));
    out += sent[r];
    in += received[r];
  }
  const char* error = said(nccl.group_end());
  return failed ? failed : error;
}

const char* send(void* comm, const void* data, std::int64_t bytes, std::int32_t to, void* stream) {
  return said(nccl.send(data, static_cast<std::size_t>(bytes), ncclUint8, to,
                        static_cast<ncclComm_t>(comm), static_cast<cudaStream_t>(stream)));
}

const char* receive(void* comm, void* data, std::int64_t bytes, std::int32_t from, void* stream) {
  return said(nccl.receive(data, static_cast<std::size_t>(bytes), ncclUint8, from,
                           static_cast<ncclComm_t>(comm), static_cast<cudaStream_t>(stream)));
}

void abort(void* comm) { nccl.comm_abort(static_cast<ncclComm_t>(comm)); }
void close(void* comm) { nccl.comm_destroy(static_cast<ncclComm_t>(comm)); }

const char* new_stream(void** stream) {
  cudaStream_t made = nullptr;
  const char* error = said(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking));
  *stream = made;
  return error;
}
void free_stream(void* stream) { cudaStreamDestroy(static_cast<cudaStream_t>(stream)); }

const char* mark(void** mark, void* stream) {
  cudaEvent_t made = nullptr;
  if (const char* error = said(cudaEventCreateWithFlags(&made, cudaEventDisableTiming)))
    return error;
  *mark = made;
  return said(cudaEventRecord(made, static_cast<cudaStream_t>(stream)));
}
const char* passed(void* mark, bool* answer) {
  const cudaError_t state = cudaEventQuery(static_cast<cudaEvent_t>(mark));
  *answer = state == cudaSuccess;
  return state == cudaErrorNotReady ? nullptr : said(state);
}
void free_mark(void* mark) { cudaEventDestroy(static_cast<cudaEvent_t>(mark)); }

constexpr NcclModule kModule = {
    .abi = kNcclAbi,
    .struct_size = sizeof(NcclModule),
    .version = GBC_VERSION_STRING,
    .header = NCCL_VERSION_CODE,
    .load = load,
    .new_id = new_id,
    .open = open,
    .busy = busy,
    .all_reduce = all_reduce,
    .broadcast = broadcast,
    .all_gather = all_gather,
    .exchange = exchange,
    .abort = abort,
    .close = close,
    .new_stream = new_stream,
    .free_stream = free_stream,
    .mark = mark,
    .passed = passed,
    .free_mark = free_mark,
    .send = send,
    .receive = receive,
};

}  // namespace
}  // namespace gbcompress::cuda

extern "C" __attribute__((visibility("default"))) const gbcompress::cuda::NcclModule*
gbcompress_nccl_module() {
  return &gbcompress::cuda::kModule;
}
