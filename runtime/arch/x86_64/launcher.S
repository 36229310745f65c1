// SPDX-License-Identifier: Apache-2.0
// The launcher's context switches. Prototypes and preconditions: context.h.
        .text

// The kernel's entry: rsp points at argc.
        .globl  _start
        .type   _start, @function
_start:
        .cfi_startproc
        .cfi_undefined rip
        xorl    %ebp, %ebp              // outermost frame
        movq    %rsp, %rdi              // argument: the initial stack
        andq    $-16, %rsp
        call    fermata_main
        ud2
        .cfi_endproc
        .size   _start, . - _start

// rdi stack, rsi entry, rdx where to keep our own stack pointer.
        .globl  fermata_call_guest
        .type   fermata_call_guest, @function
fermata_call_guest:
        .cfi_startproc
        pushq   %rbx
        .cfi_adjust_cfa_offset 8
        pushq   %rbp
        .cfi_adjust_cfa_offset 8
        pushq   %r12
        .cfi_adjust_cfa_offset 8
        pushq   %r13
        .cfi_adjust_cfa_offset 8
        pushq   %r14
        .cfi_adjust_cfa_offset 8
        pushq   %r15
        .cfi_adjust_cfa_offset 8
        movq    %rsp, (%rdx)
        jmp     fermata_enter_guest
.Lguest_left:
        popq    %r15
        .cfi_adjust_cfa_offset -8
        popq    %r14
        .cfi_adjust_cfa_offset -8
        popq    %r13
        .cfi_adjust_cfa_offset -8
        popq    %r12
        .cfi_adjust_cfa_offset -8
        popq    %rbp
        .cfi_adjust_cfa_offset -8
        popq    %rbx
        .cfi_adjust_cfa_offset -8
        ret
        .cfi_endproc
        .size   fermata_call_guest, . - fermata_call_guest

        .globl  fermata_leave_guest
        .type   fermata_leave_guest, @function
fermata_leave_guest:
        .cfi_startproc
        .cfi_undefined rip
        movq    %rdi, %rsp              // the stack of fermata_call_guest
        jmp     .Lguest_left
        .cfi_endproc
        .size   fermata_leave_guest, . - fermata_leave_guest

        .globl  fermata_enter_guest
        .type   fermata_enter_guest, @function
fermata_enter_guest:
        .cfi_startproc
        .cfi_undefined rip
        movq    %rdi, %rsp              // the guest's initial stack
        movq    %rsi, %r11              // its entry point
        xorl    %eax, %eax
        xorl    %ebx, %ebx
        xorl    %ecx, %ecx
        xorl    %edx, %edx              // no function to register with atexit
        xorl    %esi, %esi
        xorl    %edi, %edi
        xorl    %ebp, %ebp
        xorl    %r8d, %r8d
        xorl    %r9d, %r9d
        xorl    %r10d, %r10d
        xorl    %r12d, %r12d
        xorl    %r13d, %r13d
        xorl    %r14d, %r14d
        xorl    %r15d, %r15d
        jmp     *%r11
        .cfi_endproc
        .size   fermata_enter_guest, . - fermata_enter_guest

// rdi flags, rsi record, rdx parent_tid, rcx child_tid, r8 tls.
        .globl  fermata_clone_guest
        .type   fermata_clone_guest, @function
fermata_clone_guest:
        .cfi_startproc
        movq    %rcx, %r10              // kernel ABI: fourth argument in r10
        movl    $56, %eax               // clone; the child's rsp is the record
        syscall
        testq   %rax, %rax
        jz      1f
        ret
1:      .cfi_undefined rip              // the child: rsp = record, 16-byte aligned
        xorl    %ebp, %ebp
        movq    %rsp, %rbx
        movq    %rsp, %rdi
        call    fermata_thread_start
        ldmxcsr 112(%rbx)               // floating-point modes of the creating thread
        fldcw   116(%rbx)
        movq    %rbx, %rcx              // rcx, r11: clobbered by a system call anyway
        movq    0(%rcx), %rbx
        movq    8(%rcx), %rbp
        movq    16(%rcx), %rdi
        movq    24(%rcx), %rsi
        movq    32(%rcx), %rdx
        movq    40(%rcx), %r8
        movq    48(%rcx), %r9
        movq    56(%rcx), %r10
        movq    64(%rcx), %r12
        movq    72(%rcx), %r13
        movq    80(%rcx), %r14
        movq    88(%rcx), %r15
        movq    96(%rcx), %rsp
        movq    104(%rcx), %r11
        xorl    %eax, %eax              // clone returns 0 in the child
        jmp     *%r11
        .cfi_endproc
        .size   fermata_clone_guest, . - fermata_clone_guest

// rdi flags, rsi stack, rdx parent_tid, rcx child_tid, r8 tls, r9 entry, 8(rsp) argument.
        .globl  fermata_clone_call
        .type   fermata_clone_call, @function
fermata_clone_call:
        .cfi_startproc
        movq    %rcx, %r10
        movq    8(%rsp), %r11           // clobbered by syscall: hand it over on the new stack
        movq    %r11, -16(%rsi)
        movq    %r9, -8(%rsi)
        subq    $16, %rsi
        movl    $56, %eax
        syscall
        testq   %rax, %rax
        jz      1f
        ret
1:      .cfi_undefined rip
        xorl    %ebp, %ebp
        popq    %rdi                    // argument
        popq    %rax                    // entry
        call    *%rax
        ud2
        .cfi_endproc
        .size   fermata_clone_call, . - fermata_clone_call

        .globl  fermata_end_thread
        .type   fermata_end_thread, @function
fermata_end_thread:
        .cfi_startproc
        .cfi_undefined rip
        movq    %rsi, %r8               // state
        movq    %rdx, %r9               // exit code
        testq   %rdi, %rdi
        jz      1f
        movl    $0, (%rdi)              // from here on the stack may be another thread's
        movl    $1, %esi                // FUTEX_WAKE
        movl    $1, %edx                // one thread
        movl    $202, %eax              // futex
        syscall
1:      movl    $0, (%r8)               // ThreadState::kFree
        movq    %r9, %rdi
        movl    $60, %eax               // exit
        syscall
        ud2
        .cfi_endproc
        .size   fermata_end_thread, . - fermata_end_thread

        .globl  fermata_park
        .type   fermata_park, @function
fermata_park:
        .cfi_startproc
        .cfi_undefined rip
        movq    %rdi, %rbx              // callee-saved: park() keeps it for the trampoline
        testq   %rcx, %rcx
        cmovnz  %rcx, %rsp
        andq    $-16, %rsp
        pushq   %rdx                    // return address: the trampoline
        jmp     *%rsi
        .cfi_endproc
        .size   fermata_park, . - fermata_park

        .globl  fermata_sigreturn_to
        .type   fermata_sigreturn_to, @function
fermata_sigreturn_to:
        .cfi_startproc
        .cfi_undefined rip
        movq    %rdi, %rsp
        movl    $15, %eax               // rt_sigreturn
        syscall
        ud2
        .cfi_endproc
        .size   fermata_sigreturn_to, . - fermata_sigreturn_to

        .globl  fermata_restorer
        .type   fermata_restorer, @function
fermata_restorer:
        .cfi_startproc
        .cfi_undefined rip
        movl    $15, %eax
        syscall
        ud2
        .cfi_endproc
        .size   fermata_restorer, . - fermata_restorer

        .globl  fermata_hold_entry
        .type   fermata_hold_entry, @function
fermata_hold_entry:
        .cfi_startproc
        pushq   %rbx
        .cfi_adjust_cfa_offset 8
        pushq   %rbp
        .cfi_adjust_cfa_offset 8
        pushq   %r12
        .cfi_adjust_cfa_offset 8
        pushq   %r13
        .cfi_adjust_cfa_offset 8
        pushq   %r14
        .cfi_adjust_cfa_offset 8
        pushq   %r15
        .cfi_adjust_cfa_offset 8
        subq    $8, %rsp                // keep the stack 16-byte aligned at the call
        .cfi_adjust_cfa_offset 8
        movq    %rsp, %rsi
        call    fermata_hold
.Lhold_done:
        addq    $8, %rsp
        .cfi_adjust_cfa_offset -8
        popq    %r15
        .cfi_adjust_cfa_offset -8
        popq    %r14
        .cfi_adjust_cfa_offset -8
        popq    %r13
        .cfi_adjust_cfa_offset -8
        popq    %r12
        .cfi_adjust_cfa_offset -8
        popq    %rbp
        .cfi_adjust_cfa_offset -8
        popq    %rbx
        .cfi_adjust_cfa_offset -8
        ret
        .cfi_endproc
        .size   fermata_hold_entry, . - fermata_hold_entry

        .globl  fermata_hold_resume
        .type   fermata_hold_resume, @function
fermata_hold_resume:
        .cfi_startproc
        .cfi_undefined rip
        movq    %rdi, %rsp
        movl    $1, %eax                // kHoldRestarted
        jmp     .Lhold_done
        .cfi_endproc
        .size   fermata_hold_resume, . - fermata_hold_resume

        .section .note.GNU-stack, "", @progbits
