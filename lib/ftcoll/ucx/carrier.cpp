// SPDX-License-Identifier: Apache-2.0
// UCX 1.11 or later: one worker per process, and between two processes a stream in each direction.
#include "carrier.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <sys/types.h>
#include <ucp/api/ucp.h>

struct ftc_carrier {
  ucp_context_h context;
  ucp_worker_h worker;
  ucp_address_t* address;
  size_t address_bytes;
  int event_fd;
  size_t waiting;
  bool has_failed;  // some end, which has not been told
  ftc_end* ends;  // UCX may name them as long as the worker lives
};

struct ftc_end {
  ftc_carrier* carrier;
  ftc_end* next;
  ucp_ep_h ep;
  size_t token;
  size_t waiting;
  bool has_failed, is_told;
  bool is_dropped;
  // What UCX has handed over, and how far it has been read.
  char* data;
  size_t bytes, read;
};

namespace {

// Events in one turn: what has come is read before more is taken.
constexpr int kProgressMax = 32;
// Its TCP, and shared memory, of which each worker would have megabytes for nobody.
constexpr char kLeftOut[] = "^tcp,shm";

void fail(ftc_end* end) {
  end->has_failed = true;
  end->carrier->has_failed = true;
}

// What is under way: freed when UCX is through.
struct Parcel {
  ftc_end* end;
  size_t bytes;
  char data[];
};

void is_sent(void* request, ucs_status_t status, void* user) {
  auto* const parcel = static_cast<Parcel*>(user);
  ftc_end* const end = parcel->end;
  if (status != UCS_OK) fail(end);
  if (!end->is_dropped) {
    end->waiting -= parcel->bytes;
    end->carrier->waiting -= parcel->bytes;
  }
  std::free(parcel);
  ucp_request_free(request);
}

void has_failed(void* user, ucp_ep_h, ucs_status_t) { fail(static_cast<ftc_end*>(user)); }

ucs_status_t make_context(ftc_carrier& made) {
  ucp_config_t* config = nullptr;
  ucs_status_t status = ucp_config_read("FTCOLL", nullptr, &config);
  if (status != UCS_OK) return status;
  if (!std::getenv("FTCOLL_UCX_TLS")) status = ucp_config_modify(config, "TLS", kLeftOut);
  ucp_params_t params = {};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME;
  params.features = UCP_FEATURE_STREAM | UCP_FEATURE_WAKEUP;
  params.name = "ftcoll";
  if (status == UCS_OK) status = ucp_init(&params, config, &made.context);
  ucp_config_release(config);
  return status;
}

ucs_status_t make_worker(ftc_carrier& made) {
  ucp_worker_params_t params = {};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  ucs_status_t status = ucp_worker_create(made.context, &params, &made.worker);
  if (status == UCS_OK) status = ucp_worker_get_efd(made.worker, &made.event_fd);
  if (status != UCS_OK) return status;
  return ucp_worker_get_address(made.worker, &made.address, &made.address_bytes);
}

void close(ftc_carrier* carrier) {
  if (carrier->address) ucp_worker_release_address(carrier->worker, carrier->address);
  if (carrier->worker) ucp_worker_destroy(carrier->worker);
  if (carrier->context) ucp_cleanup(carrier->context);
  while (ftc_end* const end = carrier->ends) {
    carrier->ends = end->next;
    delete end;
  }
  delete carrier;
}

ftc_carrier* open(char* why, size_t room) {
  auto* const made = new (std::nothrow) ftc_carrier{};
  if (!made) {
    std::snprintf(why, room, "no memory");
    return nullptr;
  }
  ucs_status_t status = make_context(*made);
  if (status == UCS_OK) status = make_worker(*made);
  if (status == UCS_OK) return made;
  std::snprintf(why, room, "%s", ucs_status_string(status));
  close(made);
  return nullptr;
}

int event_fd(ftc_carrier* carrier) { return carrier->event_fd; }

int arm(ftc_carrier* carrier) { return ucp_worker_arm(carrier->worker) == UCS_OK ? 0 : 1; }

int progress(ftc_carrier* carrier) {
  for (int i = 0; i < kProgressMax; ++i) {
    if (ucp_worker_progress(carrier->worker) == 0) return 0;
  }
  return 1;
}

const void* address(ftc_carrier* carrier, size_t* bytes) {
  *bytes = carrier->address_bytes;
  return carrier->address;
}

ftc_end* connect(ftc_carrier* carrier, const void* address, size_t, size_t token) {
  auto* const end = new (std::nothrow) ftc_end{};
  if (!end) return nullptr;
  end->carrier = carrier;
  end->token = token;
  ucp_ep_params_t params = {};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_USER_DATA |
                      UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = static_cast<const ucp_address_t*>(address);
  params.user_data = end;
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler = {has_failed, end};
  if (ucp_ep_create(carrier->worker, &params, &end->ep) != UCS_OK) {
    delete end;
    return nullptr;
  }
  end->next = carrier->ends;
  carrier->ends = end;
  return end;
}

int send(ftc_end* end, const void* data, size_t bytes) {
  if (end->has_failed) return -1;
  auto* const parcel = static_cast<Parcel*>(std::malloc(sizeof(Parcel) + bytes));
  if (!parcel) return -1;
  parcel->end = end;
  parcel->bytes = bytes;
  std::memcpy(parcel->data, data, bytes);
  ucp_request_param_t param = {};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.send = is_sent;
  param.user_data = parcel;
  const ucs_status_ptr_t request = ucp_stream_send_nbx(end->ep, parcel->data, bytes, &param);
  if (request != nullptr && !UCS_PTR_IS_ERR(request)) {
    end->waiting += bytes;
    end->carrier->waiting += bytes;
    return 0;
  }
  std::free(parcel);
  if (UCS_PTR_IS_ERR(request)) fail(end);
  return end->has_failed ? -1 : 0;
}

size_t waiting(const ftc_carrier* carrier) { return carrier->waiting; }

ptrdiff_t receive(ftc_end* end, void* data, size_t room) {
  if (!end->data) {
    const ucs_status_ptr_t found = ucp_stream_recv_data_nb(end->ep, &end->bytes);
    if (UCS_PTR_IS_ERR(found)) return -1;
    if (!found) return end->has_failed ? -1 : 0;
    end->data = static_cast<char*>(found);
    end->read = 0;
  }
  const size_t left = end->bytes - end->read;
  const size_t taken = left < room ? left : room;
  std::memcpy(data, end->data + end->read, taken);
  end->read += taken;
  if (end->read == end->bytes) {
    ucp_stream_data_release(end->ep, end->data);
    end->data = nullptr;
  }
  return static_cast<ptrdiff_t>(taken);
}

size_t ready(ftc_carrier* carrier, size_t* tokens, size_t room) {
  size_t written = 0;
  while (written < room) {
    ucp_stream_poll_ep_t found;
    if (ucp_stream_worker_poll(carrier->worker, &found, 1, 0) != 1) break;
    const auto* const end = static_cast<const ftc_end*>(found.user_data);
    // Who has not been greeted has connected by itself, and is nobody.
    if (end && !end->is_dropped) tokens[written++] = end->token;
  }
  if (!carrier->has_failed) return written;
  ftc_end* end = carrier->ends;
  for (; end && written < room; end = end->next) {
    if (!end->has_failed || end->is_told || end->is_dropped) continue;
    end->is_told = true;
    tokens[written++] = end->token;
  }
  carrier->has_failed = end != nullptr;
  return written;
}

void drop(ftc_end* end) {
  if (end->data) ucp_stream_data_release(end->ep, end->data);
  end->data = nullptr;
  end->is_dropped = true;
  end->carrier->waiting -= end->waiting;
  ucp_request_param_t param = {};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  const ucs_status_ptr_t request = ucp_ep_close_nbx(end->ep, &param);
  if (request != nullptr && !UCS_PTR_IS_ERR(request)) ucp_request_free(request);
}

}  // namespace

extern "C" const ftc_carrier_table* ftc_carrier_find() {
  static const ftc_carrier_table table = {
      FTC_CARRIER_ABI, open, close, event_fd, arm, progress, address, connect,
      send,            waiting, receive, ready, drop};
  return &table;
}
