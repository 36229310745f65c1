// SPDX-License-Identifier: Apache-2.0
// The vdso that the upper half sees. The kernel's own lies elsewhere after a restart, or belongs to
// another kernel; these functions jump through a table (kUpperVdso + 0xe000) that the launcher
// fills with the live addresses at every start. Zero means that this kernel offers no such
// function; then they make the system call, which answers in the same way.
        .macro  forward name, slot, number
        .globl  \name
        .type   \name, @function
\name:
        .cfi_startproc
        .if     \number == 228
        testl   %edi, %edi              // a clock of one thread: names it, so the call must trap
        js      1f
        .endif
        movabsq $0x10000000e000 + 8 * \slot, %rax
        movq    (%rax), %rax
        testq   %rax, %rax
        jz      1f
        jmp     *%rax
1:      movl    $\number, %eax
        syscall
        ret
        .cfi_endproc
        .size   \name, . - \name
        .endm

        .text
        forward __vdso_clock_gettime, 0, 228
        forward __vdso_gettimeofday, 1, 96
        forward __vdso_time, 2, 201
        forward __vdso_getcpu, 3, 309
        forward __vdso_clock_getres, 4, 229

// Carries on a system call that a checkpoint interrupted. Entered by rt_sigreturn with the call's
// number in rax and its (perhaps changed) arguments in their registers; rsp names a CarriedCall
// (launcher/calls.cpp). Gives the caller its registers and its stack back and goes on behind the
// system call instruction it had issued; rcx and r11 are what a system call leaves there.
//
// Entered at __vdso_fermata_wait it waits first, by poll(2), whose arguments are in their
// registers; those of the call that follows are in r8 (its rsi) and r9 (its rdx), in r10 and in the
// CarriedCall.
        .globl  __vdso_fermata_wait, __vdso_fermata_waited
        .globl  __vdso_fermata_carry, __vdso_fermata_carried
        .type   __vdso_fermata_wait, @function
__vdso_fermata_wait:
        .cfi_startproc
        .cfi_signal_frame               // the caller may be at any instruction
        .cfi_escape 0x0f, 4, 0x77, 0xf0, 0x00, 0x06     // CFA: what lies at rsp + 112
        .cfi_escape 0x10, 16, 3, 0x77, 0xe8, 0x00       // rip: at rsp + 104
        syscall
__vdso_fermata_waited:
        testq   %rax, %rax
        js      __vdso_fermata_carried  // a handler has run: what has been moved is the result
        movq    (%rsp), %rax
        movq    56(%rsp), %rdi
        movq    %r8, %rsi
        movq    %r9, %rdx
        movq    88(%rsp), %r8
        movq    96(%rsp), %r9
__vdso_fermata_carry:
        syscall
__vdso_fermata_carried:
        movq    120(%rsp), %rcx         // moved by earlier calls of the same transfer: the result
        testq   %rcx, %rcx              // is the sum, and no error of the last one
        jz      2f
        testq   %rax, %rax
        jns     1f
        xorl    %eax, %eax
1:      addq    %rcx, %rax
2:      movq    56(%rsp), %rdi
        movq    64(%rsp), %rsi
        movq    72(%rsp), %rdx
        movq    80(%rsp), %r10
        movq    88(%rsp), %r8
        movq    96(%rsp), %r9
        movq    104(%rsp), %rcx
        movq    112(%rsp), %rsp
        .cfi_def_cfa rsp, 0
        .cfi_register rip, rcx
        jmp     *%rcx
        .cfi_endproc
        .size   __vdso_fermata_wait, . - __vdso_fermata_wait

        .section .note.GNU-stack, "", @progbits
