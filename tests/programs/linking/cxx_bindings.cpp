// SPDX-License-Identifier: Apache-2.0
// The C++ bindings, as mpicxx builds a program by default: objects, virtual calls, and callbacks in
// C++ (operations, attributes, an error handler).
#include "../check.h"

namespace {

struct Pair {
  long low, high;
};

void keep_range(const void *in, void *inout, int count, const MPI::Datatype &type) {
  CHECK(type.Get_size() == int(sizeof(Pair)));
  const Pair *a = static_cast<const Pair *>(in);
  Pair *b = static_cast<Pair *>(inout);
  for (int i = 0; i < count; i++) {
    if (a[i].low < b[i].low) b[i].low = a[i].low;
    if (a[i].high > b[i].high) b[i].high = a[i].high;
  }
}

void add_bytes(const void *in, void *inout, int count, const MPI::Datatype &type) {
  const unsigned char *a = static_cast<const unsigned char *>(in);
  unsigned char *b = static_cast<unsigned char *>(inout);
  for (int i = 0; i < count * type.Get_size(); i++) b[i] = static_cast<unsigned char>(b[i] + a[i]);
}

int copies, deletions, handled;
long value = 41;

int copy_attribute(const MPI::Comm &comm, int, void *extra, void *in, void *out, bool &flag) {
  CHECK(comm.Get_size() == ranks && extra == &copies);
  CHECK(!comm.Is_inter() && dynamic_cast<const MPI::Intracomm *>(&comm) != nullptr);
  copies++;
  *static_cast<void **>(out) = in;
  flag = true;
  return MPI::SUCCESS;
}

int delete_attribute(MPI::Comm &, int, void *held, void *) {
  CHECK(held == &value);
  deletions++;
  return MPI::SUCCESS;
}

void handle_error(MPI::Comm &comm, int *code, ...) {
  CHECK(comm.Get_rank() == rank && MPI::Get_error_class(*code) == MPI::ERR_RANK);
  handled++;
}

// Open MPI's are built without exceptions.
int failure_of(const MPI::Comm &comm) {
#ifdef MPICH_VERSION
  try {
    comm.Send(&value, 1, MPI::LONG, ranks + 3, 0);
  } catch (MPI::Exception &thrown) {
    return thrown.Get_error_class();
  }
  return MPI::SUCCESS;
#else
  MPI::mpi_errno = MPI::SUCCESS;
  comm.Send(&value, 1, MPI::LONG, ranks + 3, 0);
  return MPI::Get_error_class(MPI::mpi_errno);
#endif
}

// Callbacks around the life of a duplicate of the world.
void check_callbacks() {
  const int keyval = MPI::Comm::Create_keyval(copy_attribute, delete_attribute, &copies);
  MPI::COMM_WORLD.Set_attr(keyval, &value);
  MPI::Intracomm dup = MPI::COMM_WORLD.Dup();
  void *found = nullptr;
  CHECK(dup.Get_attr(keyval, &found) && found == &value && copies == 1);
  MPI::Errhandler handler = MPI::Comm::Create_errhandler(handle_error);
  dup.Set_errhandler(handler);
  dup.Send(&value, 1, MPI::LONG, ranks + 3, 0);
  CHECK(handled == 1);
  dup.Set_errhandler(MPI::ERRORS_THROW_EXCEPTIONS);
  CHECK(dup.Get_errhandler() == MPI::ERRORS_THROW_EXCEPTIONS);
  CHECK(failure_of(dup) == MPI::ERR_RANK);
  handler.Free();
  dup.Free();
  CHECK(deletions == 1);
  MPI::COMM_WORLD.Delete_attr(keyval);
  CHECK(deletions == 2);
}

void step(int number, const MPI::Datatype &pair, const MPI::Op &range, const MPI::Op &bytes) {
  const Pair mine = {-long(rank) - number, long(rank) * number};
  Pair all;
  MPI::COMM_WORLD.Allreduce(&mine, &all, 1, pair, range);
  CHECK(all.low == 1 - ranks - number && all.high == long(ranks - 1) * number);
  const unsigned char one[4] = {1, 2, 3, static_cast<unsigned char>(number)};
  unsigned char sum[4];
  MPI::COMM_WORLD.Allreduce(one, sum, 4, MPI::BYTE, bytes);
  for (int i = 0; i < 4; i++) CHECK(sum[i] == static_cast<unsigned char>(one[i] * ranks));

  int token = rank * 100 + number;
  const int left = (rank + ranks - 1) % ranks, right = (rank + 1) % ranks;
  MPI::Status status;
  int got = -1;
  MPI::Request sent = MPI::COMM_WORLD.Isend(&token, 1, MPI::INT, right, number);
  MPI::COMM_WORLD.Recv(&got, 1, MPI::INT, left, MPI::ANY_TAG, status);
  sent.Wait();
  CHECK(got == left * 100 + number && status.Get_source() == left && status.Get_tag() == number);
  CHECK(status.Get_count(MPI::INT) == 1);
  double mean = 0.5 * number, total = 0;
  MPI::COMM_WORLD.Reduce(&mean, &total, 1, MPI::DOUBLE, MPI::SUM, 0);
  CHECK(rank != 0 || total == mean * ranks);
  mix(&all, sizeof all);
  mix_int(got);
}

}  // namespace

int main(int argc, char **argv) {
  MPI::Init(argc, argv);
  rank = MPI::COMM_WORLD.Get_rank();
  ranks = MPI::COMM_WORLD.Get_size();
  const options o = parse_options(argc, argv, 12, 0);
  MPI::Datatype pair = MPI::LONG.Create_contiguous(2);
  pair.Commit();
  MPI::Op range, bytes;
  range.Init(keep_range, true);
  bytes.Init(add_bytes, true);
  check_callbacks();
  const bool periods[1] = {true};
  MPI::Cartcomm ring = MPI::COMM_WORLD.Create_cart(1, &ranks, periods, false);
  for (int number = 1; number <= o.steps; number++) {
    step(number, pair, range, bytes);
    int source = -1, target = -1;
    ring.Shift(0, 1, source, target);
    CHECK(target == (rank + 1) % ranks);
    report_step(number, o.step_ms);
  }
  CHECK(copies == 1 && handled == 1);
  ring.Free();
  range.Free();
  bytes.Free();
  pair.Free();
  CHECK(MPI_Op(range) == MPI_OP_NULL);
  finish();
  return 0;
}
