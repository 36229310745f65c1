#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the library and its drop-in for one MPI: build/lib/ftcoll/libftcoll.so, and
# build/lib/ftcoll/NAME/libftcoll_mpi.so beside it; headers into build/include; the script `survive`
# beside the libraries.
# usage: lib/ftcoll/mpi/build.sh MPICC NAME
set -eu
[ $# -eq 2 ] || { echo "usage: $0 MPICC NAME" >&2; exit 2; }
mpicc=$1 name=$2
cd "$(dirname "$0")/../../.."
out=build/lib/ftcoll
mkdir -p "$out/$name" build/include
install -m 755 build/cargo/release/libftcoll.so "$out/libftcoll.so.new"
mv -f "$out/libftcoll.so.new" "$out/libftcoll.so"
install -m 644 lib/ftcoll/transport/include/ftcoll.h lib/ftcoll/mpi/include/ftcoll_mpi.h \
  build/include
install -m 755 lib/ftcoll/mpi/survive.sh "$out/survive"
# Only what the headers and the MPI name can be seen from outside.
echo '{ global: MPI_*; mpi_*; ompi_*_f; ftc_*; local: *; };' > "$out/$name/exported"
"$mpicc" -x c++ -std=c++20 -O2 -g -Wall -Wextra -fPIC -fno-exceptions -fno-rtti \
  -DOMPI_SKIP_MPICXX -DMPICH_SKIP_MPICXX -Ibuild/include -Iruntime/interface \
  -shared lib/ftcoll/mpi/*.cpp \
  -L"$out" -lftcoll -lstdc++ -pthread -Wl,-soname,libftcoll_mpi.so -Wl,-rpath,'$ORIGIN/..' \
  -Wl,--version-script="$out/$name/exported" -o "$out/$name/libftcoll_mpi.so.new"
mv -f "$out/$name/libftcoll_mpi.so.new" "$out/$name/libftcoll_mpi.so"
