#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds what libftcoll.so loads when it is asked for UCX: build/lib/ftcoll/libftcoll_ucx.so. Where
# UCX is not installed there is none, and who asks for it is told so.
set -eu
cd "$(dirname "$0")/../../.."
out=build/lib/ftcoll
mkdir -p "$out"
cxx=${CXX:-g++}
if ! echo '#include <ucp/api/ucp.h>' | "$cxx" -E -x c++ - > /dev/null 2>&1; then
  rm -f "$out/libftcoll_ucx.so"
  echo "lib/ftcoll/ucx: not built, as the headers of UCX (libucx-dev) are not there"
  exit 0
fi
"$cxx" -std=c++20 -O2 -g -Wall -Wextra -Wshadow -fPIC -fno-exceptions -fno-rtti \
  -fvisibility=hidden -shared lib/ftcoll/ucx/carrier.cpp -lucp -lucs \
  -Wl,-soname,libftcoll_ucx.so -o "$out/libftcoll_ucx.so.new"
mv -f "$out/libftcoll_ucx.so.new" "$out/libftcoll_ucx.so"
