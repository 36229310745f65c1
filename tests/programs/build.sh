#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds every test program with each MPI's own compiler wrapper into build/tests/<mpi>/: those of
# the folders mpi, resources and fortran into folders of these names, all others side by side. The
# programs are ordinary MPI programs: nothing of the product is compiled or linked into them.
set -euo pipefail
cd "$(dirname "$0")/../.."
mkdir -p build/tests
exec 9> build/tests/programs.lock
flock 9  # one at a time; the others find all made
# What is killed in the middle leaves no half target, which would be taken for a program.
compile() { # TARGET COMMAND...
  "${@:2}" -o "$1.new" && mv "$1.new" "$1"
}
for mpi in openmpi mpich; do
  command -v mpicc.$mpi > /dev/null || { echo "tests: mpicc.$mpi is missing: ./x setup"; exit 1; }
  out=build/tests/$mpi
  mkdir -p "$out"
  stale() {
    local on
    for on in "$1" tests/programs/check.h runtime/interface/fermata.{h,f90} "$0"; do
      [[ $on -nt $2 ]] && return  # also if there is no $2
    done
    return 1
  }
  mkdir -p "$out/mpi"
  for source in tests/programs/{basic,process,linking,api,mpi}/*.c; do
    name=$(basename "${source%.c}")
    [[ $source != */mpi/* ]] || name=mpi/$name
    case $name in
      plugin | thread_plugin) target=$name.so; flags=(-shared -fPIC) ;;
      loaded_by_thread) target=$name; flags=(-Wl,--as-needed) ;;
      nonpie) target=$name; flags=(-no-pie) ;;
      *) target=$name; flags=() ;;
    esac
    if stale "$source" "$out/$target"; then
      compile "$out/$target" mpicc.$mpi -std=gnu11 -O2 -g -Wall -Wextra -Wno-stringop-overflow \
        -Iruntime/interface "${flags[@]}" "$source" -lpthread -ldl -lm
    fi
  done
  if stale tests/programs/linking/static_cxx.cpp "$out/static_cxx"; then
    # Without the MPI's own C++ bindings: they would bring in the shared libstdc++.
    compile "$out/static_cxx" mpicxx.$mpi -std=c++17 -O2 -g -Wall -Wextra -DOMPI_SKIP_MPICXX \
      -DMPICH_SKIP_MPICXX -static-libstdc++ -static-libgcc tests/programs/linking/static_cxx.cpp
  fi
  # As the wrapper builds by default: with the C++ bindings and their library.
  if stale tests/programs/linking/cxx_bindings.cpp "$out/cxx_bindings"; then
    compile "$out/cxx_bindings" mpicxx.$mpi -std=c++17 -O2 -g -Wall -Wextra \
      -Wno-cast-function-type tests/programs/linking/cxx_bindings.cpp
  fi
  # Tight loops: one file is in C++. What their assembly pushes may not meet a red zone.
  loops=(-mno-red-zone tests/programs/loops/{clocks,signals,memory,transfers}.c
    tests/programs/loops/{processes,registers}.c "$out/loops.o" -lstdc++ -lpthread -ldl)
  if [[ -n $(find tests/programs/loops tests/programs/check.h "$0" \
    -newer "$out/loops" 2>&1) ]]; then
    compile "$out/loops.o" g++ -std=c++20 -O2 -g -Wall -Wextra -c \
      tests/programs/loops/exceptions.cpp
    compile "$out/loops" mpicc.$mpi -std=gnu11 -O2 -g -Wall -Wextra tests/programs/loops/main.c \
      tests/programs/loops/polling.c "${loops[@]}"
  fi
  # The interpreter of random programs: all of its files at once.
  sources=(tests/programs/{chaos,loops,check.h} "$0")
  if [[ -n $(find "${sources[@]}" -newer "$out/chaos" 2>&1) ]]; then
    compile "$out/chaos" mpicc.$mpi -std=gnu11 -O2 -g -Wall -Wextra -Wno-stringop-overflow \
      -Wno-stringop-overread -fvisibility=hidden -Iruntime/interface tests/programs/chaos/*.c \
      "${loops[@]}" -lm
  fi
done

# One program per thing that a rank may hold. Flags of its own stand in a line `// Flags: ...`.
for mpi in openmpi mpich; do
  out=build/tests/$mpi/resources
  mkdir -p "$out"
  for source in tests/programs/resources/*.c; do
    target=$(basename "${source%.c}")
    stale "$source" "$out/$target" || continue
    read -ra flags <<< "$(sed -n 's,^// Flags: ,,p' "$source")"
    compile "$out/$target" mpicc.$mpi -std=gnu11 -O2 -g -Wall -Wextra -Wno-stringop-overflow \
      "$source" "${flags[@]}" -lpthread -ldl -lm -lrt
  done
done

# Programs whose collectives survive dead processes: linked to the drop-in before the MPI if they
# name it, else it is preloaded.
for mpi in openmpi mpich; do
  out=build/tests/$mpi/ftcoll drop_in=build/lib/ftcoll/$mpi
  mkdir -p "$out"
  for source in tests/programs/ftcoll/*.c lib/ftcoll/examples/mpi/*.c; do
    target=$out/$(basename "${source%.c}")
    stale "$source" "$target" || stale lib/ftcoll/mpi/include/ftcoll_mpi.h "$target" || continue
    flags=()
    ! grep -q ftcoll_mpi.h "$source" || flags=(-Ibuild/include -L"$drop_in" -lftcoll_mpi
      -Lbuild/lib/ftcoll -lftcoll -Wl,-rpath,"$PWD/$drop_in:$PWD/build/lib/ftcoll")
    compile "$target" mpicc.$mpi -std=gnu11 -O2 -g -Wall -Wextra "$source" "${flags[@]}" -lm
  done
done

# Programs that save themselves by SCR's calls: the examples, in C and in Fortran, and what calls
# them in other orders.
for mpi in openmpi mpich; do
  out=build/tests/$mpi/scr library=$PWD/build/lib/scr/$mpi
  mkdir -p "$out"
  flags=(-Ibuild/include -L"$library" -lscr -Wl,-rpath,"$library")
  for source in lib/scr/examples/heat.c tests/programs/scr/*.c; do
    target=$out/$(basename "${source%.c}")
    stale "$source" "$target" || stale lib/scr/mpi/include/scr.h "$target" || continue
    compile "$target" mpicc.$mpi -std=gnu11 -O2 -g -Wall -Wextra "$source" "${flags[@]}"
  done
  source=lib/scr/examples/heat.f90 target=$out/heat_fortran
  if command -v gfortran > /dev/null && stale $source "$target"; then
    compile "$target" mpif90.$mpi -O2 -g -w -fallow-argument-mismatch "$source" -lscrf "${flags[@]}"
  fi
done

# The Fortran programs; `calls` with mpif.h and with module mpi.
fortran() { # MPI SOURCE TARGET [FLAG...]
  local mpi=$1 source=tests/programs/fortran/$2 target=build/tests/$1/fortran/$3
  stale "$source" "$target" || return 0
  # Each compilation writes module files, so each has a folder for them.
  mkdir -p "$target.modules"
  compile "$target" "mpif90.$mpi" -O1 -g -w -fallow-argument-mismatch -J"$target.modules" \
    "${@:4}" "$source"
}
for mpi in openmpi mpich; do
  fortran $mpi calls.F90 mpif_h -DFERMATA_MPIF_H
  fortran $mpi calls.F90 module
  fortran $mpi f08.f90 f08
  fortran $mpi refused.f90 refused
  fortran $mpi user_api.f90 user_api runtime/interface/fermata.f90
done

# Those of them that are in Fortran, in each of its three ways.
for mpi in openmpi mpich; do
  for way in mpif_h: mpi:-DFTCOLL_MPI f08:-DFTCOLL_F08; do
    target=build/tests/$mpi/ftcoll/fortran_${way%%:*} drop_in=build/lib/ftcoll/$mpi
    stale tests/programs/ftcoll/fortran.F90 "$target" || continue
    mkdir -p "$target.modules"
    compile "$target" "mpif90.$mpi" -O1 -g -w -fallow-argument-mismatch -J"$target.modules" \
      ${way#*:} tests/programs/ftcoll/fortran.F90 -L"$drop_in" -lftcoll_mpi \
      -Lbuild/lib/ftcoll -lftcoll -Wl,-rpath,"$PWD/$drop_in"
  done
done

# What brings a checkpoint into a chosen MPI call; its functions are all that the MPI table names.
points=build/tests/checkpoint_points
mkdir -p "$points"
sources=(tests/harness/checkpoint_points.cpp runtime/halves "$0")
if [[ -n $(find "${sources[@]}" -newer "$points.so" 2>&1) ]]; then
  grep -o '"name":"MPI_[A-Za-z0-9_]*","return_kind"' spec/mpi/apis.json | cut -d'"' -f4 | sort -u |
    sed 's/.*/CALL(&)/' > "$points/names.inc"
  compile "$points.so" g++ -std=c++20 -O2 -g -Wall -Wextra -fno-exceptions -fno-rtti -shared -fPIC \
    -Iruntime -I"$points" tests/harness/checkpoint_points.cpp
fi
