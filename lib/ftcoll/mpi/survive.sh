#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# survive PROGRAM [ARGUMENT..]: a rank whose death by a signal its process manager does not see.
#
# MPICH's ends all ranks of a host when one of its children dies by a signal, also if it is told
# not to (-disable-auto-cleanup), and sends SIGUSR1 to the others. The child is this shell here: it
# ignores that signal, as the program does then, and ends well when its program is killed.
trap '' USR1
"$@"
code=$?
[ "$code" -lt 128 ] || code=0
exit "$code"
