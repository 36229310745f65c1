#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds the core's objects, which every front end is linked with. Compiles what is older than
# anything it includes.
# usage: runtime/mpi/build.sh [OUT [FLAG...]]   (build/obj/mpi; the front ends' flags)
set -euo pipefail
cd "$(dirname "$0")/../.."
out=${1:-build/obj/mpi}
shift || true
flags=(-std=c++20 -g -fno-exceptions -fno-rtti -fno-threadsafe-statics -Wall -Wextra
       -Wshadow=local -Iruntime)
if (($#)); then
  flags+=("$@")
else
  flags+=(-O2 -fPIC -fvisibility=hidden -fno-plt -Werror)
fi
mkdir -p "$out"
exec 9> "$out/lock"
flock 9  # another one may want the same objects
printf '%s\n' "${flags[@]}" > "$out/flags.new"
cmp -s "$out/flags.new" "$out/flags" || cp "$out/flags.new" "$out/flags"

# True if the object is there, and newer than the flags and all that its source includes.
is_fresh() {
  local object=$1 needs
  [[ -f $object && -f ${object%.o}.d ]] || return 1
  read -ra needs <<< "$(tr -d '\\\n' < "${object%.o}.d" | cut -d: -f2-)"
  [[ -z $(find "$out/flags" "${needs[@]}" -newer "$object" 2>&1 | head -1) ]]
}

objects=() stale=()
for source in runtime/mpi/*/*.cpp; do
  object=$out/$(basename "$(dirname "$source")")_$(basename "$source" .cpp).o
  objects+=("$object")
  is_fresh "$object" || stale+=("$source" "$object")
done
if ((${#stale[@]})); then
  printf '%s\0' "${stale[@]}" | xargs -0 -n 2 -P "$(nproc)" \
    bash -c 'exec gcc -x c++ -MMD "${@:1:$#-2}" -c "${@: -2:1}" -o "${@: -1}"' compile "${flags[@]}"
fi
# Somebody may be linking what is there.
rm -f "$out/core.a.new"
ar crs "$out/core.a.new" "${objects[@]}"
mv "$out/core.a.new" "$out/core.a"
