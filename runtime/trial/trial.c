/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The job of one rank that `fermata doctor` runs under each registered MPI: it has itself saved,
 * and says which of its lives it is in. Built without any mpi.h, for the front end of Open MPI's
 * ABI.
 */
#include <stdio.h>

#include "interface/fermata.h"

int MPI_Init(int *argc, char ***argv);
int MPI_Barrier(void *comm);
int MPI_Finalize(void);
extern char ompi_mpi_comm_world[]; /* MPI_COMM_WORLD is its address */

int main(int argc, char **argv) {
  char why[512] = "";
  int life;
  if (MPI_Init(&argc, &argv) || MPI_Barrier(ompi_mpi_comm_world)) return 1;
  life = fermata_checkpoint(why, sizeof why);
  if (life < 0) {
    fprintf(stderr, "fermata: the trial was not saved (%d): %s\n", life, why);
    return 1;
  }
  printf("%s\n", life == FERMATA_RESTARTED ? "restarted" : "saved");
  return MPI_Barrier(ompi_mpi_comm_world) || MPI_Finalize();
}
