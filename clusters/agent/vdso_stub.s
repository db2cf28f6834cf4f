# The code that stands in for three functions of the vDSO (x86-64) while the clocks of a process are skewed.
#
#     as vdso_stub.s -o stub.o && objcopy -O binary -j .text stub.o stub.bin
#
# clusters/agent/host/vdso.py holds the result as STUB, with the places of the labels below; a test compares the two.
# It makes the real system call and adds, for each clock of the two kinds:
#
#     offset + limited(elapsed * rate / 1,000,000) + (amplitude in every second period)
#
# with elapsed = the real reading minus since[id]. It keeps to the C calling convention, writes nothing but its result,
# and needs no stack but the red zone, so any thread may be in it at any time. A record is: offset (ns), rate (ppm),
# amplitude (ns), period (ns; 0: none), limit of the second term (ns; 0: none).
# wall: CLOCK_REALTIME, _COARSE, _ALARM, TAI (0, 5, 8, 11); mono: MONOTONIC, _RAW, _COARSE, BOOTTIME, _ALARM (1, 4, 6, 7, 9).

.intel_syntax noprefix
.text
gettime:
        mov     eax, 228
        syscall
        test    eax, eax
        jnz     1f
        cmp     edi, 12
        jae     1f
        mov     edi, edi
        lea     r9, [rip + gettime_done]
        lea     r8, [rip + wall]
        mov     edx, 0x921
        bt      edx, edi
        jc      skew
        add     r8, 40
        mov     edx, 0x2d2
        bt      edx, edi
        jc      skew
1:      ret
timeofday:
        test    rsi, rsi
        jz      1f
        mov     rdx, rdi
        xor     edi, edi
        mov     eax, 96
        syscall
        mov     rdi, rdx
1:      xor     eax, eax
        test    rdi, rdi
        jz      2f
        mov     rsi, rdi
        xor     edi, edi
        mov     eax, 228
        syscall
        test    eax, eax
        jnz     2f
        lea     r9, [rip + timeofday_done]
        lea     r8, [rip + wall]
        jmp     skew
2:      ret
seconds:
        mov     [rsp - 32], rdi
        xor     edi, edi
        lea     rsi, [rsp - 24]
        mov     eax, 228
        syscall
        lea     r9, [rip + seconds_done]
        lea     r8, [rip + wall]
skew:
        imul    r10, [rsi], 1000000000
        add     r10, [rsi + 8]
        mov     r11, r10
        lea     rcx, [rip + since]
        sub     r11, [rcx + rdi * 8]
        mov     rax, r11
        imul    qword ptr [r8 + 8]
        mov     ecx, 1000000
        idiv    rcx
        mov     rcx, [r8 + 32]
        test    rcx, rcx
        jz      2f
        cmp     rax, rcx
        cmovg   rax, rcx
        neg     rcx
        cmp     rax, rcx
        cmovl   rax, rcx
2:      add     r10, rax
        add     r10, [r8]
        mov     rcx, [r8 + 24]
        test    rcx, rcx
        jz      3f
        mov     rax, r11
        cqo
        idiv    rcx
        test    al, 1
        jz      3f
        add     r10, [r8 + 16]
3:      mov     rax, r10
        cqo
        mov     ecx, 1000000000
        idiv    rcx
        test    rdx, rdx
        jns     4f
        add     rdx, rcx
        dec     rax
4:      mov     [rsi], rax
        mov     [rsi + 8], rdx
        jmp     r9
gettime_done:
        xor     eax, eax
        ret
timeofday_done:
        mov     rax, rdx
        xor     edx, edx
        mov     ecx, 1000
        div     rcx
        mov     [rsi + 8], rax
        xor     eax, eax
        ret
seconds_done:
        mov     rcx, [rsp - 32]
        test    rcx, rcx
        jz      5f
        mov     [rcx], rax
5:      ret
        .balign 8
wall:   .skip 40
mono:   .skip 40
since:  .skip 96
