// SPDX-License-Identifier: Apache-2.0
// The native methods of Ranks.java.
#include <jni.h>
#include <mpi.h>

JNIEXPORT jint JNICALL Java_Ranks_start(JNIEnv *env, jclass of) {
  (void)env, (void)of;
  int provided, rank;
  MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

JNIEXPORT jlong JNICALL Java_Ranks_sum(JNIEnv *env, jclass of, jlong value) {
  (void)env, (void)of;
  long long mine = value, all = 0;
  MPI_Allreduce(&mine, &all, 1, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
  return all;
}

JNIEXPORT void JNICALL Java_Ranks_finish(JNIEnv *env, jclass of) {
  (void)env, (void)of;
  MPI_Finalize();
}
