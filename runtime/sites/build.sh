#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds build/libexec/fermata/sites. Skips the work when nothing has changed since the last time.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=build/libexec/fermata/sites
objects=build/obj/sites
mkdir -p "$(dirname "$out")" "$objects"

runtime/sites/zydis/build.sh
zydis=build/zydis
flags=(-std=c++20 -O2 -g -fno-exceptions -fno-rtti -Wall -Wextra -Iruntime -isystem $zydis/include
       -DZYDIS_STATIC_BUILD -DZYCORE_STATIC_BUILD)
changed=
for source in runtime/sites/*.cpp; do
  object=$objects/$(basename "${source%.cpp}").o
  newer=
  [[ -f $object ]] && newer=$(find runtime/sites runtime/base $zydis/libZydis.a -newer "$object" \
    -print -quit)
  if [[ ! -f $object || -n $newer ]]; then
    g++ "${flags[@]}" -c "$source" -o "$object"
    changed=1
  fi
done
if [[ -n $changed || ! -f $out ]]; then
  # Ranks start it in whatever environment their program has: it needs no library of any system, and
  # no LD_PRELOAD is loaded into it. A system without a static C library gets a dynamic one.
  link=(-static-libstdc++ -static-libgcc)
  [[ ! -f $(g++ -print-file-name=libc.a) ]] || link=(-static)
  g++ "${link[@]}" -o "$out.tmp" "$objects"/*.o $zydis/libZydis.a
  mv "$out.tmp" "$out"
fi
