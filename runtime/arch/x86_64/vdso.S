// SPDX-License-Identifier: Apache-2.0
// The vdso that the upper half sees. The kernel's own lies elsewhere after a restart, or belongs to
// another kernel; these functions call it through a table (kUpperVdso + 0xe000) that the launcher
// fills with the live addresses at every start. Zero means that this kernel offers no such
// function; then they make the system call, which answers in the same way.
//
// A thread may be saved inside the kernel's function. Nothing of that is there after a restart: the
// thread comes out of the sled (launcher/patch/vdso.cpp) at __vdso_fermata_again below, which
// begins the call again. So a call leaves what it needs for that in a frame of ten words: the
// function's number, its arguments, the registers that it must keep, the caller's stack pointer.
//
// The frame is found from the stack pointer alone, since its address is 176 modulo 256, and the
// kernel's functions need far less than 256 bytes of stack.
        .set    table, 0x1000c000e000   // kVdsoTable
        .set    frame_align, 256
        .set    frame_bytes, 80
        .set    slot_at, 0
        .set    rsi_at, 8
        .set    rdi_at, 16
        .set    rsp_at, 72
        .set    return_at, frame_align - frame_bytes - 8        // modulo frame_align

        .macro  forward name, slot, number
        .globl  \name
        .type   \name, @function
\name:
        .cfi_startproc
        .if     \number == 228
        testl   %edi, %edi              // a clock of one thread: names it, so the call must trap
        js      1f
        .endif
        .if     \number == 229
        testl   %edi, %edi              // likewise
        js      1f
        .endif
        movabsq table + 8 * \slot, %rax
        testq   %rax, %rax
        jz      1f
        movq    %rsp, %r11
        .cfi_def_cfa r11, 8
        andq    $-frame_align, %rsp
        pushq   %r11                    // the only one that is read when the call returns: the
        pushq   %rbx                    // kernel's function leaves the others as they are
        pushq   %rbp
        pushq   %r12
        pushq   %r13
        pushq   %r14
        pushq   %r15
        pushq   %rdi
        pushq   %rsi
        pushq   $\slot
        jmp     call_live
1:      .cfi_def_cfa rsp, 8
        movl    $\number, %eax
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
numbers:
        .long   228, 96, 201, 309, 229

// rsp = a frame, rax = the kernel's function, its arguments in their registers.
        .type   call_live, @function
call_live:
        .cfi_startproc
        .cfi_escape 0x0f, 6, 0x77, 0xc8, 0x00, 0x06, 0x23, 8    // CFA: 8 + what lies at rsp + 72
        call    *%rax
called:
        movq    rsp_at(%rsp), %rsp
        .cfi_def_cfa rsp, 8
        ret
        .cfi_endproc
        .size   call_live, . - call_live

// Begins a call again. rsp = anywhere in what the kernel's function had on the stack, from its
// return address down; all other registers are of no use.
        .globl  __vdso_fermata_again
        .type   __vdso_fermata_again, @function
__vdso_fermata_again:
        .cfi_startproc
        .cfi_undefined rip
        leaq    called(%rip), %rdx
        leaq    frame_align - 1 - return_at(%rsp), %rcx
        andq    $-frame_align, %rcx
        addq    $return_at, %rcx        // the least such address that is not below rsp
1:      cmpq    %rdx, (%rcx)
        je      2f
        addq    $frame_align, %rcx      // a kernel whose functions need more stack
        jmp     1b
2:      leaq    8(%rcx), %rsp
        movl    slot_at(%rsp), %edx
        movq    rsi_at(%rsp), %rsi
        movq    rdi_at(%rsp), %rdi
        movq    24(%rsp), %r15
        movq    32(%rsp), %r14
        movq    40(%rsp), %r13
        movq    48(%rsp), %r12
        movq    56(%rsp), %rbp
        movq    64(%rsp), %rbx
        .cfi_restore rip
        .cfi_escape 0x0f, 6, 0x77, 0xc8, 0x00, 0x06, 0x23, 8
        movabsq $table, %rcx
        movq    (%rcx,%rdx,8), %rax
        testq   %rax, %rax
        jnz     call_live
        leaq    numbers(%rip), %rcx
        movl    (%rcx,%rdx,4), %eax
        syscall
        jmp     called
        .cfi_endproc
        .size   __vdso_fermata_again, . - __vdso_fermata_again

// After a restart the kernel tells the new process's id where the application has sent a signal to
// itself; the one that the application knows takes its place: Senders of
// launcher/ids/senders.cpp.
        .set    SENDERS, table + 0x800
        .set    HELPERS, SENDERS + 8 + 8 * 65   // pairs of numbers, the last one is zero
// Exchanges \pid for what the application knows it by, if it is that of a child which a restart has
// started again. \pair is lost.
        .macro  know_helper pid, pair
        movabsq $HELPERS, \pair
        jmp     .Llook\@
.Lnext\@:
        addq    $8, \pair
.Llook\@:
        cmpl    $0, (\pair)
        je      .Ldone\@
        cmpl    (\pair), \pid
        jne     .Lnext\@
        movl    4(\pair), \pid
.Ldone\@:
        .endm
// A siginfo_t at \info that tells of a child. \pid and \pair are lost.
        .macro  correct_child info, pid, pair
        movl    16(\info), \pid
        know_helper \pid, \pair
        movl    \pid, 16(\info)
        .endm
// A siginfo_t at \info with si_code in \code: SI_USER, SI_QUEUE, SI_MESGQ, SI_TKILL name a sender.
// Jumps to \end if nothing is to be done. \code and \scratch are lost.
        .macro  correct code, info, senders, scratch, end
        negl    \code
        cmpl    $6, \code
        ja      \end
        movl    $0x4b, \scratch
        btl     \code, \scratch
        jnc     \end
        movl    (\senders), \scratch
        cmpl    \scratch, 16(\info)
        jne     \end
        movl    4(\senders), \scratch
        movl    \scratch, 16(\info)
        .endm

// Makes a system call again that a checkpoint interrupted. Entered by rt_sigreturn with the call's
// number in rax and its (perhaps changed) arguments in their registers; rsp names a RestartBlock
// (launcher/boundary/call_restart.h). Gives the caller its registers and its stack back and
// continues behind the system call instruction it had issued; rcx and r11 are what a system call
// leaves there. The names of these functions are in older images as well, and stay.
//
// Entered at __vdso_fermata_wait it waits first, by poll(2), whose arguments are in their
// registers; those of the call that follows are in r8 (its rsi) and r9 (its rdx), in r10 and in the
// RestartBlock.
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
        cmpl    $61, (%rsp)             // wait4 has told which child
        jne     4f
        testq   %rax, %rax
        jle     3f
        know_helper %eax, %rdx
        jmp     3f
4:      cmpl    $247, (%rsp)            // waitid likewise, where the caller wanted to know it
        jne     5f
        movq    72(%rsp), %rsi
        testq   %rax, %rax
        jnz     3f
        testq   %rsi, %rsi
        jz      3f
        correct_child %rsi, %ecx, %rdx
        jmp     3f
5:      cmpl    $128, (%rsp)            // rt_sigtimedwait has told who sent the signal
        jne     3f
        testq   %rax, %rax
        jle     3f
        movq    64(%rsp), %rsi          // where the caller wanted to know it, or nowhere
        testq   %rsi, %rsi
        jz      3f
        cmpl    $17, %eax               // SIGCHLD
        jne     6f
        correct_child %rsi, %ecx, %rdx
6:      movabsq $SENDERS, %rdx
        movl    8(%rsi), %ecx
        correct %ecx, %rsi, %rdx, %edi, 3f
3:      movq    120(%rsp), %rcx         // moved by earlier calls of the same transfer: the result
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

// Where the kernel enters a handler with SA_SIGINFO after a restart.
        .globl  __vdso_fermata_handler
        .type   __vdso_fermata_handler, @function
__vdso_fermata_handler:
        .cfi_startproc
        movabsq $SENDERS, %r8
        cmpl    $17, %edi               // SIGCHLD
        jne     2f
        correct_child %rsi, %ecx, %r9
2:      movl    8(%rsi), %ecx
        correct %ecx, %rsi, %r8, %r9d, 1f
1:      movslq  %edi, %rcx
        movq    8(%r8,%rcx,8), %rcx     // the application's own
        jmp     *%rcx
        .cfi_endproc
        .size   __vdso_fermata_handler, . - __vdso_fermata_handler

// Where the kernel enters a handler of a signal that is to save the job: it leaves a bit for
// launcher/threads/held_signals.cpp. The second one corrects the sender as well.
        .set    HEARD, table + 0xb00    // kHeardHandlers
        .macro  note_signal
        movabsq $HEARD, %r8
        leal    -1(%rdi), %ecx
        lock btsq %rcx, (%r8)
        .endm
        .globl  __vdso_fermata_noting_told
        .type   __vdso_fermata_noting_told, @function
__vdso_fermata_noting_told:
        .cfi_startproc
        note_signal
        jmp     __vdso_fermata_handler
        .cfi_endproc
        .size   __vdso_fermata_noting_told, . - __vdso_fermata_noting_told
        .globl  __vdso_fermata_noting
        .type   __vdso_fermata_noting, @function
__vdso_fermata_noting:
        .cfi_startproc
        note_signal
        movabsq $SENDERS, %r8
        movslq  %edi, %rcx
        movq    8(%r8,%rcx,8), %rcx     // the application's own
        jmp     *%rcx
        .cfi_endproc
        .size   __vdso_fermata_noting, . - __vdso_fermata_noting

// clock_gettime where the application's clocks are the kernel's and an offset, as in
// launcher/threads/clocks.cpp.
// In the table it stands in place of the kernel's own, which is in the sixth place. The reading and
// the offset must be of one process: if there has been a restart between them, once more.
        .set    LIVE, table + 8 * 5
        .set    SHIFT, table + 0x500    // threads/clocks.cpp: Shift
        .globl  __vdso_fermata_shifted
        .type   __vdso_fermata_shifted, @function
__vdso_fermata_shifted:
        .cfi_startproc
        pushq   %rbx
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset rbx, 0
        pushq   %rbp
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset rbp, 0
        pushq   %r12
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset r12, 0
        movl    %edi, %ebx              // the clock
        movq    %rsi, %rbp              // where its time goes
1:      movabsq $SHIFT, %rcx
        movq    (%rcx), %r12            // the number of restarts
        movabsq LIVE, %rax
        movl    %ebx, %edi
        movq    %rbp, %rsi
        testq   %rax, %rax
        jz      4f
        call    *%rax
        testl   %eax, %eax
        jnz     3f
        cmpl    $16, %ebx
        jae     3f
        movabsq $SHIFT, %rcx
        movq    8(%rcx,%rbx,8), %rdx    // seconds
        movq    136(%rcx,%rbx,8), %rsi  // nanoseconds
        cmpq    (%rcx), %r12
        jne     1b
        addq    %rsi, 8(%rbp)
        cmpq    $1000000000, 8(%rbp)
        jb      2f
        subq    $1000000000, 8(%rbp)
        incq    %rdx
2:      addq    %rdx, (%rbp)
3:      popq    %r12
        .cfi_adjust_cfa_offset -8
        popq    %rbp
        .cfi_adjust_cfa_offset -8
        popq    %rbx
        .cfi_adjust_cfa_offset -8
        ret
        .cfi_adjust_cfa_offset 24
4:      movl    $228, %eax              // the boundary adds the offset
        syscall
        jmp     3b
        .cfi_endproc
        .size   __vdso_fermata_shifted, . - __vdso_fermata_shifted

        .section .note.GNU-stack, "", @progbits
