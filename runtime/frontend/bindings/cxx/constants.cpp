// SPDX-License-Identifier: Apache-2.0
// The objects of namespace MPI that programs import: each wraps the C handle of the same name.
//
// Programs hold copies of these objects (copy relocations), so they are reached through the global
// symbol table only; the constructors below run after the front end's, which we are linked to.
#include <mpi.h>

extern "C" {
extern struct ompi_predefined_errhandler_t ompi_mpi_errors_throw_exceptions;
}

namespace MPI {

void* const BOTTOM = MPI_BOTTOM;
void* const IN_PLACE = MPI_IN_PLACE;
const char** ARGV_NULL = nullptr;
const char*** ARGVS_NULL = nullptr;
int mpi_errno = MPI_SUCCESS;
// Of the original's size, as programs may hold a copy.
extern const char ompi_libcxx_version_string[] = "4.1.4";

Intracomm COMM_WORLD(MPI_COMM_WORLD);
Intracomm COMM_SELF(MPI_COMM_SELF);
Comm_Null COMM_NULL;
Request REQUEST_NULL(MPI_REQUEST_NULL);

#define FERMATA_WRAP(type, name) const type name(MPI_##name);
FERMATA_WRAP(Group, GROUP_NULL)
FERMATA_WRAP(Group, GROUP_EMPTY)
FERMATA_WRAP(Win, WIN_NULL)
FERMATA_WRAP(Info, INFO_NULL)
FERMATA_WRAP(File, FILE_NULL)
FERMATA_WRAP(Errhandler, ERRHANDLER_NULL)
FERMATA_WRAP(Errhandler, ERRORS_ARE_FATAL)
FERMATA_WRAP(Errhandler, ERRORS_RETURN)

FERMATA_WRAP(Op, OP_NULL)
FERMATA_WRAP(Op, MAX)
FERMATA_WRAP(Op, MIN)
FERMATA_WRAP(Op, SUM)
FERMATA_WRAP(Op, PROD)
FERMATA_WRAP(Op, MAXLOC)
FERMATA_WRAP(Op, MINLOC)
FERMATA_WRAP(Op, BAND)
FERMATA_WRAP(Op, BOR)
FERMATA_WRAP(Op, BXOR)
FERMATA_WRAP(Op, LAND)
FERMATA_WRAP(Op, LOR)
FERMATA_WRAP(Op, LXOR)
FERMATA_WRAP(Op, REPLACE)

FERMATA_WRAP(Datatype, DATATYPE_NULL)
FERMATA_WRAP(Datatype, CHAR)
FERMATA_WRAP(Datatype, SHORT)
FERMATA_WRAP(Datatype, INT)
FERMATA_WRAP(Datatype, LONG)
FERMATA_WRAP(Datatype, SIGNED_CHAR)
FERMATA_WRAP(Datatype, UNSIGNED_CHAR)
FERMATA_WRAP(Datatype, UNSIGNED_SHORT)
FERMATA_WRAP(Datatype, UNSIGNED)
FERMATA_WRAP(Datatype, UNSIGNED_LONG)
FERMATA_WRAP(Datatype, FLOAT)
FERMATA_WRAP(Datatype, DOUBLE)
FERMATA_WRAP(Datatype, LONG_DOUBLE)
FERMATA_WRAP(Datatype, BYTE)
FERMATA_WRAP(Datatype, PACKED)
FERMATA_WRAP(Datatype, WCHAR)
FERMATA_WRAP(Datatype, FLOAT_INT)
FERMATA_WRAP(Datatype, DOUBLE_INT)
FERMATA_WRAP(Datatype, LONG_INT)
FERMATA_WRAP(Datatype, SHORT_INT)
FERMATA_WRAP(Datatype, LONG_DOUBLE_INT)
FERMATA_WRAP(Datatype, INTEGER)
FERMATA_WRAP(Datatype, REAL)
FERMATA_WRAP(Datatype, DOUBLE_PRECISION)
FERMATA_WRAP(Datatype, LOGICAL)
FERMATA_WRAP(Datatype, CHARACTER)
FERMATA_WRAP(Datatype, LONG_LONG)
FERMATA_WRAP(Datatype, LONG_LONG_INT)
FERMATA_WRAP(Datatype, UNSIGNED_LONG_LONG)

// Where C++ and C differ in the name.
const Datatype TWOINT(MPI_2INT);
const Datatype TWOREAL(MPI_2REAL);
const Datatype TWODOUBLE_PRECISION(MPI_2DOUBLE_PRECISION);
const Datatype TWOINTEGER(MPI_2INTEGER);
const Datatype BOOL(MPI_CXX_BOOL);
const Datatype COMPLEX(MPI_CXX_FLOAT_COMPLEX);
const Datatype DOUBLE_COMPLEX(MPI_CXX_DOUBLE_COMPLEX);
const Datatype LONG_DOUBLE_COMPLEX(MPI_CXX_LONG_DOUBLE_COMPLEX);
const Datatype F_COMPLEX(MPI_COMPLEX);

// What Debian's library has here, of other sizes than the names say: programs get the same.
const Datatype F_DOUBLE_COMPLEX(MPI_CXX_DOUBLE_COMPLEX);
const Datatype INTEGER1(MPI_CHAR);
const Datatype INTEGER2(MPI_INTEGER);
const Datatype INTEGER4(MPI_SHORT);
const Datatype REAL2(MPI_REAL);
const Datatype REAL4(MPI_REAL);
const Datatype REAL8(MPI_DOUBLE);

// Until InitializeIntercepts replaces it; fatal in the front end.
const Errhandler ERRORS_THROW_EXCEPTIONS(
    OMPI_PREDEFINED_GLOBAL(MPI_Errhandler, ompi_mpi_errors_throw_exceptions));

}  // namespace MPI
