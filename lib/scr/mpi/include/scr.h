// SPDX-License-Identifier: Apache-2.0
// Programs that save themselves: the calls of SCR 3. Link with -lscr; in Fortran include scrf.h and
// link with -lscrf -lscr. docs/reference/scr.md has the configuration.
//
// All calls but SCR_Route_file and SCR_Get_version are collective over MPI_COMM_WORLD, and return
// the same on all processes: SCR_SUCCESS, or SCR_FAILURE after a line on standard error that says
// why. SCR_Config comes before SCR_Init, all others between MPI_Init, SCR_Init, SCR_Finalize and
// MPI_Finalize.
#ifndef SCR_H
#define SCR_H

#ifdef __cplusplus
extern "C" {
#endif

#define SCR_MAJOR_VERSION "3"
#define SCR_MINOR_VERSION "1"
#define SCR_PATCH_VERSION "0"
#define SCR_VERSION "v3.1.0"

#define SCR_SUCCESS (0)
#define SCR_FAILURE (1)

// Room for a name or a path that the library writes, with the zero at its end.
#define SCR_MAX_FILENAME 1024

// What a dataset is for; combined by |.
#define SCR_FLAG_NONE (0)
#define SCR_FLAG_CHECKPOINT (1)  // a job can begin with it
#define SCR_FLAG_OUTPUT (2)      // it has to reach the prefix directory

// Looks at what is left in caches and in the prefix directory, and has the newest checkpoint ready.
int SCR_Init(void);

// Copies the newest checkpoint to the prefix directory if it is only in the caches (SCR_FLUSH is
// not 0), and sets the halt condition that keeps the job from being started again.
int SCR_Finalize(void);

// "KEY=VALUE" sets a value (then NULL is returned), "KEY=" takes that back, "KEY" asks for the
// value that holds: a string to be freed, or NULL if none is set. Children of a parent follow it:
// "CKPT=0 TYPE=XOR SET_SIZE=16", "CKPT=0 TYPE".
const char* SCR_Config(const char* config);
const char* SCR_Configf(const char* format, ...)
#ifdef __GNUC__
    __attribute__((format(printf, 1, 2)))
#endif
    ;

// Where a file is to be written or read; `name` is its path in the prefix directory, `file` has
// room for SCR_MAX_FILENAME bytes. In a restart the file has to be there. Outside of outputs and
// restarts it is `name`. Not collective.
int SCR_Route_file(const char* name, char* file);

// Whether there is a checkpoint to begin with, and its name (`name` may be NULL).
int SCR_Have_restart(int* flag, char* name);

// From now on its files can be read.
int SCR_Start_restart(char* name);

// SCR_SUCCESS if all processes have read their files. Otherwise the next older checkpoint is made
// ready, and SCR_Have_restart says whether there is one.
int SCR_Complete_restart(int valid);

// Whether a checkpoint is to be taken now.
int SCR_Need_checkpoint(int* flag);

// From now on files of a dataset can be written. A NULL name stands for one that has its number.
int SCR_Start_output(const char* name, int flags);

// SCR_SUCCESS if all processes have written their files: the dataset exists, and outlives what the
// configuration says.
int SCR_Complete_output(int valid);

// The same under their old names, for a checkpoint without a name.
int SCR_Start_checkpoint(void);
int SCR_Complete_checkpoint(int valid);

// Whether the job is to end.
int SCR_Should_exit(int* flag);

// The checkpoint of this name is the one to begin with. Newer ones in the caches go.
int SCR_Current(const char* name);

// Forgets a dataset, whose files stay in the prefix directory.
int SCR_Drop(const char* name);

// Removes a dataset, in the prefix directory and in the caches.
int SCR_Delete(const char* name);

// Not to be freed.
char* SCR_Get_version(void);

#ifdef __cplusplus
}
#endif
#endif
