// SPDX-License-Identifier: Apache-2.0
// Our vdso image, linked by the build, as data of the launcher.
        .section .rodata
        .globl  fermata_vdso_image, fermata_vdso_image_end
        .balign 4096
fermata_vdso_image:
        .incbin VDSO_IMAGE
fermata_vdso_image_end:
        .section .note.GNU-stack, "", @progbits
