#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the launcher: freestanding, linked at kLauncherBase, nothing undefined.
# usage: runtime/launcher/build.sh [OUTDIR [OBJECTS]]   (build/libexec/fermata, build/obj/launcher)
set -eu
cd "$(dirname "$0")/../.."
out=${1:-build/libexec/fermata}
work=${2:-build/obj/launcher}
mkdir -p "$out" "$work"
cxx=${CXX:-g++}
cc=${CC:-gcc}
flags="-std=c++20 -O2 -g -Wall -Wextra -Wshadow -ffreestanding -fno-exceptions -fno-rtti -fPIE
 -fno-stack-protector -fcf-protection=none -fno-threadsafe-statics -fno-asynchronous-unwind-tables
 -fno-tree-loop-distribute-patterns -mno-red-zone -Iruntime"

$cc -shared -nostdlib -Wl,-soname,linux-vdso.so.1 -Wl,--hash-style=both -Wl,--build-id=none \
  -Wl,-T,runtime/arch/x86_64/vdso.lds -Wl,--eh-frame-hdr -s -o "$work/vdso.so" \
  runtime/arch/x86_64/vdso.S

# What seals images is Rust, without a libc as well; its panics end in runtime/image/seal.cpp.
cargo=${CARGO_TARGET_DIR:-$PWD/build/cargo}
(cd control && CARGO_TARGET_DIR=$cargo cargo rustc --quiet --locked -p fermata-seal --lib \
  --crate-type staticlib --features freestanding --profile freestanding -- \
  -C no-redzone=yes -C relocation-model=pie)
seal=$cargo/freestanding/libfermata_seal.a

objects=
for source in runtime/launcher/*.cpp runtime/launcher/*/*.cpp runtime/memory/*.cpp \
  runtime/files/*.cpp runtime/image/*.cpp runtime/arch/x86_64/memory.cpp; do
  object=$work/$(echo "$source" | tr / _).o
  # shellcheck disable=SC2086
  $cxx $flags -c "$source" -o "$object"
  objects="$objects $object"
done
for source in runtime/arch/x86_64/launcher.S runtime/arch/x86_64/embed.S; do
  object=$work/$(echo "$source" | tr / _).o
  $cc -DVDSO_IMAGE="\"$work/vdso.so\"" -c "$source" -o "$object"
  objects="$objects $object"
done

# What a constant of runtime/halves/layout.h is; one with a name in it comes after that one.
constant() {
  sed -n "s/^inline constexpr u64 $1 = \([^;]*\);.*/\1/p" runtime/halves/layout.h | tr -d "'"
}
kLauncherBase=$(constant kLauncherBase)
# shellcheck disable=SC2086
$cxx -static -nostdlib -no-pie \
  -Wl,-Ttext-segment="$(printf %#x $((kLauncherBase + 0x10000)))" \
  -Wl,--section-start=.fermata_calls="$(printf %#x $(($(constant kLauncherCallsAt))))" \
  -Wl,-z,noexecstack -Wl,--build-id \
  -Wl,--no-relax -o "$out/launcher.new" $objects "$seal"
undefined=$(nm -u "$out/launcher.new")
[ -z "$undefined" ] || { echo "launcher has undefined symbols: $undefined" >&2; exit 1; }
mv -f "$out/launcher.new" "$out/launcher"  # ranks may be starting
