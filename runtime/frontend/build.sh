#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds every front end. Usage: build.sh [OUTDIR] (default: build/lib/fermata/front)
set -euo pipefail
cd "$(dirname "$0")/../.."
out=${1:-build/lib/fermata/front}
runtime/mpi/build.sh build/obj/mpi
# gcc rather than g++: nothing of libstdc++ is used, so nothing of it is linked.
# Functions begin with a cache line: a call as short as MPI_Comm_rank costs a third more if it lies
# across two of them, and which ones do changes with any line of code.
flags=(-std=c++20 -O2 -g -fPIC -shared -fno-exceptions -fno-rtti -fvisibility=hidden -fno-plt
       -fno-threadsafe-statics -falign-functions=64 -Wall -Wextra -Wshadow=local -Werror -Iruntime)
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' control/Cargo.toml)
flags+=("-DFERMATA_VERSION=\"$version\"")
# What checkpoint-aware applications are built with.
mkdir -p build/include
cp runtime/interface/fermata.h runtime/interface/fermata.f90 build/include

# front SONAME FOLDER: programs hold copies of the exported objects, so no -Bsymbolic here.
front() {
  mkdir -p "$out/$2"
  gcc -x c++ "${flags[@]}" -Wl,-soname,"$1" -Wl,-z,now -Wl,-z,defs -o "$out/$2/$1.new" \
    "runtime/frontend/$2/front.cpp" -x none build/obj/mpi/core.a
  mv "$out/$2/$1.new" "$out/$2/$1"
}
front libmpi.so.40 ompi
# Open MPI's Fortran functions, in terms of its C functions; calls within go through no table.
mkdir -p "$out/ompi"
gcc -x c++ "${flags[@]}" -Wl,-soname,libmpi_mpifh.so.40 -Wl,-z,now -Wl,-z,defs \
  -o "$out/ompi/libmpi_mpifh.so.40.new" runtime/frontend/bindings/fortran/*.cpp \
  -x none "$out/ompi/libmpi.so.40"
mv "$out/ompi/libmpi_mpifh.so.40.new" "$out/ompi/libmpi_mpifh.so.40"
front libmpich.so.12 mpich
# The same code under upstream's soname: only the name in the dynamic section differs, so the object
# is compiled once more rather than patched.
front libmpi.so.12 mpich

# The installed headers of Open MPI's C++ bindings; Open MPI 5 has none, and neither have programs
# that are built for it.
cxx_headers() {
  local includes dir
  command -v mpicxx.openmpi > /dev/null || return 1
  read -ra includes <<< "$(mpicxx.openmpi -showme:incdirs)"
  for dir in "${includes[@]}"; do
    [[ ! -f $dir/openmpi/ompi/mpi/cxx/mpicxx.h ]] || return 0
  done
  return 1
}

# Open MPI's C++ bindings: ordinary application code over the front end's C functions. Nothing is
# inlined, so that the headers' inline members are exported as the original library exports them.
bindings() {
  local soname=libmpi_cxx.so.40 includes
  read -ra includes <<< "$(mpicxx.openmpi -showme:incdirs)"
  g++ -std=c++20 -O2 -g -fPIC -shared -fno-inline -Wall -Wextra -Werror -Wno-cast-function-type \
    -Iruntime "${includes[@]/#/-isystem}" -Wl,-soname,$soname -Wl,-z,now -Wl,-z,defs \
    -Wl,--as-needed -o "$out/ompi/$soname.new" runtime/frontend/bindings/cxx/*.cpp \
    "$out/ompi/libmpi.so.40"
  mv "$out/ompi/$soname.new" "$out/ompi/$soname"
}
if cxx_headers; then
  bindings
else
  rm -f "$out/ompi/libmpi_cxx.so.40"
  echo "front ends: without libmpi_cxx.so.40: the Open MPI of mpicxx.openmpi has no C++ bindings" \
    "(openmpi/ompi/mpi/cxx/mpicxx.h), so programs that use them cannot run here" >&2
fi
