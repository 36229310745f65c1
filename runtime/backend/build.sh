#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds a back end for one MPI installation: a program of the lower half.
# usage: runtime/backend/build.sh MPICC OUTDIR NAME
set -eu
export LC_ALL=C
[ $# -eq 3 ] || { echo "usage: $0 MPICC OUTDIR NAME" >&2; exit 2; }
mpicc=$1 out=$2 name=$3
case $out in /*) ;; *) out=$PWD/$out ;; esac
cd "$(dirname "$0")/../.."
work=$out/.obj-$name
mkdir -p "$out" "$work"
flags="-x c++ -std=c++20 -O2 -g -Wall -Wextra -Wno-deprecated-declarations -Wno-cast-function-type
 -Wno-missing-field-initializers -fno-exceptions -fno-rtti -fno-threadsafe-statics -fno-plt
 -DOMPI_SKIP_MPICXX -DMPICH_SKIP_MPICXX -Iruntime -I$work"

# Which of the names we use does this mpi.h have? One compile of all tells by its errors.
{
  echo '#include <mpi.h>'
  while read -r kind symbol; do
    case $kind in
      f) echo "void* f_$symbol = reinterpret_cast<void*>(&MPI_$symbol);" ;;
      c) echo "auto c_$symbol = MPI_$symbol;" ;;
    esac
  done < runtime/backend/names.gen.txt
} > "$work/probe.cpp"
# shellcheck disable=SC2086
"$mpicc" $flags -w -fmax-errors=0 -fsyntax-only "$work/probe.cpp" 2> "$work/probe.log" || true
grep -q 'mpi.h: No such file' "$work/probe.log" && { cat "$work/probe.log" >&2; exit 1; }
sed -n "s/.*error: .MPI_\([A-Za-z0-9_]*\). was not declared.*/\1/p" "$work/probe.log" \
  | sort -u > "$work/missing.txt"
# An MPI may lack nothing at all: the first file is told by its name, not by NR == FNR.
awk 'FILENAME == ARGV[1] { missing[$1] = 1; next }
  !($2 in missing) { print "#define FERMATA_HAS_" $2 " 1" }' \
  "$work/missing.txt" runtime/backend/names.gen.txt > "$work/has.h"

sources="$(ls runtime/backend/*.cpp runtime/agent/*.cpp)"
objects=
for source in $sources; do
  object=$work/$(echo "$source" | tr / _).o
  # shellcheck disable=SC2086
  "$mpicc" $flags -fPIC -include "$work/has.h" -DFERMATA_LOWER_NAME="\"$name\"" \
    -c "$source" -o "$object"
  objects="$objects $object"
done
# ompio.cpp, exit_handlers.cpp, ucx.cpp
echo '{ opal_progress_register; opal_progress_unregister; __cxa_atexit; ucp_worker_create;
  ucp_worker_destroy; read; };' > "$work/exported"
# shellcheck disable=SC2086
"$mpicc" -pie -o "$out/$name.new" $objects -pthread -Wl,--dynamic-list="$work/exported"
mv -f "$out/$name.new" "$out/$name"
