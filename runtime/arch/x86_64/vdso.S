// SPDX-License-Identifier: Apache-2.0
// The vdso that the upper half sees. The kernel's own lies elsewhere after a restart, or belongs to
// another kernel; these functions jump through a table (kUpperVdso + 0xe000) that the launcher
// fills with the live addresses at every start.
        .macro  forward name, slot
        .globl  \name
        .type   \name, @function
\name:
        .cfi_startproc
        movabsq $0x10000000e000 + 8 * \slot, %rax
        jmp     *(%rax)
        .cfi_endproc
        .size   \name, . - \name
        .endm

        .text
        forward __vdso_clock_gettime, 0
        forward __vdso_gettimeofday, 1
        forward __vdso_time, 2
        forward __vdso_getcpu, 3
        forward __vdso_clock_getres, 4

        .section .note.GNU-stack, "", @progbits
