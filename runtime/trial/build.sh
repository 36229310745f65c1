#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds build/libexec/fermata/trial, after the front end that it is linked to.
set -eu
cd "$(dirname "$0")/../.."
out=build/libexec/fermata/trial
gcc -std=c99 -O2 -Wall -Wextra -Werror -Iruntime -D_GNU_SOURCE -o "$out.new" runtime/trial/trial.c \
  build/lib/fermata/front/ompi/libmpi.so.40
mv "$out.new" "$out"
