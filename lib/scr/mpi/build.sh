#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the library for one MPI: build/lib/scr/NAME/libscr.so.3 and libscrf.so.3, with the links
# that -lscr and -lscrf find; headers into build/include.
# usage: lib/scr/mpi/build.sh MPICC NAME
set -eu
[ $# -eq 2 ] || { echo "usage: $0 MPICC NAME" >&2; exit 2; }
mpicc=$1 name=$2
cd "$(dirname "$0")/../../.."
out=build/lib/scr/$name
mkdir -p "$out" build/include
install -m 644 lib/scr/mpi/include/scr.h lib/scr/mpi/include/scrf.h build/include
# Only what the headers name can be seen from outside.
echo '{ global: SCR_*; scr_*_; local: *; };' > "$out/exported"
link() { # NAME WHAT...
  library=lib$1.so.3
  shift
  "$mpicc" -x c++ -std=c++20 -O2 -g -Wall -Wextra -fPIC -fno-exceptions -fno-rtti \
    -DOMPI_SKIP_MPICXX -DMPICH_SKIP_MPICXX -Ibuild/include -shared -Wl,-soname,"$library" \
    -Wl,-rpath,'$ORIGIN' -Wl,--gc-sections -Wl,--version-script="$out/exported" "$@" \
    -o "$out/$library.new"
  mv -f "$out/$library.new" "$out/$library"
  ln -sf "$library" "$out/${library%.3}"
}
link scr lib/scr/mpi/scr.cpp -x none build/cargo/release/libfermata_scr_library.a -lpthread -ldl
link scrf lib/scr/mpi/scrf.cpp -x none -L"$out" -lscr -lstdc++
