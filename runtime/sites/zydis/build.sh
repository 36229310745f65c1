#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds build/zydis/libZydis.a, the decoder alone, and puts its headers beside it. Skips the work
# when the locked version is what is there.
set -euo pipefail
cd "$(dirname "$0")/../../.."
here=runtime/sites/zydis
out=build/zydis
if cmp -s $here/Cargo.lock $out/Cargo.lock && cmp -s $here/build.sh $out/build.sh; then exit 0; fi
rm -rf $out
mkdir -p $out
cargo vendor --quiet --locked --manifest-path $here/Cargo.toml $out/crates > /dev/null
source=$out/crates/zydis/zydis-c
flags=(-O2 -DZYDIS_STATIC_BUILD -DZYCORE_STATIC_BUILD -DZYDIS_DISABLE_ENCODER
       -DZYDIS_DISABLE_FORMATTER -I $source/include -I $source/src
       -I $source/dependencies/zycore/include)
for name in Decoder DecoderData Register SharedData; do
  gcc "${flags[@]}" -c $source/src/$name.c -o $out/$name.o
done
ar rcs $out/libZydis.a $out/*.o
mkdir $out/include
cp -r $source/include/Zydis $source/dependencies/zycore/include/Zycore $out/include
cp $here/Cargo.lock $here/build.sh $out
