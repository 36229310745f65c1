// SPDX-License-Identifier: Apache-2.0
// Holds something that no checkpoint can save (--hold tcp | child | device | counter | card |
// queue | receive | ended | send | pool=FILE), uses it in each step to show that a refused
// checkpoint has not harmed it, and is otherwise a plain MPI program.
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../check.h"

static int near_end = -1, far_end = -1;  // of a TCP connection
static pid_t child = -1;
static volatile void *ring;  // of a device
static int counter_fd = -1, queue = -1, card = -1;
static volatile void *frames, *pool;

static void connect_to_self(void) {
  struct sockaddr_in where = {.sin_family = AF_INET};
  socklen_t bytes = sizeof where;
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  near_end = socket(AF_INET, SOCK_STREAM, 0);
  CHECK(listener >= 0 && near_end >= 0);
  CHECK(bind(listener, (struct sockaddr *)&where, sizeof where) == 0 && listen(listener, 1) == 0);
  CHECK(getsockname(listener, (struct sockaddr *)&where, &bytes) == 0);
  CHECK(connect(near_end, (struct sockaddr *)&where, sizeof where) == 0);
  far_end = accept(listener, NULL, NULL);
  CHECK(far_end >= 0);
  close(listener);
}

static void start_child(void) {
  child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    execlp("sleep", "sleep", "300", (char *)NULL);
    _exit(127);
  }
}

static void need(int there) {
  if (there) return;
  printf("no device\n");
  exit(0);
}

// Memory that belongs to the kernel: the ring of a performance counter, perf_event_open(2).
static void open_counter(int mapped) {
  struct perf_event_attr counter;
  memset(&counter, 0, sizeof counter);
  counter.size = sizeof counter;
  counter.type = PERF_TYPE_SOFTWARE;
  counter.config = PERF_COUNT_SW_TASK_CLOCK;
  counter.exclude_kernel = 1;
  const int fd = (int)syscall(SYS_perf_event_open, &counter, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
  need(fd >= 0);
  if (!mapped) {
    counter_fd = fd;
    return;
  }
  ring = mmap(NULL, 2 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  CHECK(ring != MAP_FAILED);
  close(fd);
}

// The ring in which a network card's packets arrive, packet(7).
static void map_card(void) {
  struct tpacket_req size = {.tp_block_size = 4096, .tp_block_nr = 2, .tp_frame_size = 2048,
                             .tp_frame_nr = 4};
  card = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
  need(card >= 0);
  CHECK(setsockopt(card, SOL_PACKET, PACKET_RX_RING, &size, sizeof size) == 0);
  frames = mmap(NULL, 2 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, card, 0);
  CHECK(frames != MAP_FAILED);
  close(card);
}

// A file of the huge page pool. Its pages need not be there to be reserved.
static void map_pool(const char *path) {
  char own[512];
  snprintf(own, sizeof own, "%s.%d", path, rank);
  const int fd = open(own, O_RDWR | O_CREAT, 0600);
  CHECK(fd >= 0);
  pool = mmap(NULL, 2 << 20, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  CHECK(pool != MAP_FAILED);
  close(fd);
}

static int request_is_done(MPI_Request request) {
  int flag = 0;
  MPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE);
  return flag;
}

// On a communicator that is freed: a posted receive, a persistent one that has ended, or a
// persistent send and its receive.
static MPI_Request kept = MPI_REQUEST_NULL, taken = MPI_REQUEST_NULL;
static int to_send, received;
static void keep_on_freed(const char *what) {
  MPI_Comm freed;
  MPI_Comm_dup(MPI_COMM_SELF, &freed);
  if (!strcmp(what, "receive")) MPI_Irecv(NULL, 0, MPI_INT, 0, 0, freed, &kept);
  if (!strcmp(what, "send")) {
    MPI_Send_init(&to_send, 1, MPI_INT, 0, 0, freed, &kept);
    MPI_Recv_init(&received, 1, MPI_INT, 0, 0, freed, &taken);
  }
  if (!strcmp(what, "ended")) {
    MPI_Recv_init(NULL, 0, MPI_INT, 0, 0, freed, &kept);
    MPI_Start(&kept);
    MPI_Send(NULL, 0, MPI_INT, 0, 0, freed);
    while (!request_is_done(kept)) {
    }
  }
  MPI_Comm_free(&freed);
}

static void use_persistent(int step) {
  to_send = step;
  MPI_Start(&kept);
  MPI_Start(&taken);
  MPI_Wait(&kept, MPI_STATUS_IGNORE);
  MPI_Wait(&taken, MPI_STATUS_IGNORE);
  CHECK(received == step);
}

static void use_queue(int step) {
  struct {
    long type;
    int step;
  } message = {1, step};
  CHECK(msgsnd(queue, &message, sizeof message.step, 0) == 0);
  message.step = 0;
  CHECK(msgrcv(queue, &message, sizeof message.step, 1, 0) == sizeof message.step);
  CHECK(message.step == step);
}

static void use(int step) {
  char byte = (char)step;
  if (near_end >= 0) {
    CHECK(write(near_end, &byte, 1) == 1);
    byte = 0;
    CHECK(read(far_end, &byte, 1) == 1 && byte == (char)step);
  }
  if (child > 0) CHECK(waitpid(child, NULL, WNOHANG) == 0);
  if (queue >= 0) use_queue(step);
  if (taken != MPI_REQUEST_NULL) use_persistent(step);
  if (counter_fd >= 0) CHECK(read(counter_fd, &(uint64_t){0}, 8) == 8);
  if (frames) CHECK(*(volatile uint32_t *)frames == TP_STATUS_KERNEL);
  if (pool) CHECK(mprotect((void *)pool, 2 << 20, PROT_READ | PROT_WRITE) == 0);
  if (ring) CHECK(((volatile struct perf_event_mmap_page *)ring)->data_size == 4096);
}

int main(int argc, char **argv) {
  const char *hold = "";
  struct options o = parse_options(argc, argv, 20, 0);
  for (int i = 1; i + 1 < argc; i++)
    if (!strcmp(argv[i], "--hold")) hold = argv[i + 1];
  start(&argc, &argv);
  if (!strcmp(hold, "tcp")) connect_to_self();
  if (!strcmp(hold, "child")) start_child();
  if (!strcmp(hold, "device") || !strcmp(hold, "counter")) open_counter(!strcmp(hold, "device"));
  if (!strcmp(hold, "card")) map_card();
  if (!strcmp(hold, "queue")) queue = msgget(IPC_PRIVATE, 0600);
  if (!strcmp(hold, "receive") || !strcmp(hold, "ended") || !strcmp(hold, "send"))
    keep_on_freed(hold);
  if (!strncmp(hold, "pool=", 5)) map_pool(hold + 5);
  for (int step = 1; step <= o.steps; step++) {
    int sum = 0;
    use(step);
    MPI_Allreduce(&step, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    mix_int(sum);
    report_step(step, o.step_ms);
  }
  if (queue >= 0) CHECK(msgctl(queue, IPC_RMID, NULL) == 0);
  if (child > 0) {
    kill(child, SIGKILL);
    CHECK(waitpid(child, NULL, 0) == child);
  }
  if (!strcmp(hold, "receive")) MPI_Cancel(&kept);
  if (kept != MPI_REQUEST_NULL) MPI_Wait(&kept, MPI_STATUS_IGNORE);
  if (kept != MPI_REQUEST_NULL) MPI_Request_free(&kept);
  if (taken != MPI_REQUEST_NULL) MPI_Request_free(&taken);
  finish();
  return 0;
}
