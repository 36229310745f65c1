#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds build/libexec/fermata/sites. Skips the work when nothing has changed since the last time.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=build/libexec/fermata/sites
objects=build/obj/sites
mkdir -p "$(dirname "$out")" "$objects"

# The static library, where a distribution has one, keeps the tool free of run-time dependencies.
libraries=()
for name in Zydis Zycore; do
  archive=$(g++ -print-file-name=lib$name.a)
  if [[ -f $archive ]]; then libraries+=("$archive"); else libraries+=("-l$name"); fi
done

flags=(-std=c++20 -O2 -g -fno-exceptions -fno-rtti -Wall -Wextra -Iruntime)
changed=
for source in runtime/sites/*.cpp; do
  object=$objects/$(basename "${source%.cpp}").o
  newer=
  [[ -f $object ]] && newer=$(find runtime/sites runtime/base -newer "$object" -print -quit)
  if [[ ! -f $object || -n $newer ]]; then
    g++ "${flags[@]}" -c "$source" -o "$object"
    changed=1
  fi
done
if [[ -n $changed || ! -f $out ]]; then
  g++ -static-libstdc++ -static-libgcc -o "$out.tmp" "$objects"/*.o "${libraries[@]}"
  mv "$out.tmp" "$out"
fi
