#include "textflag.h"

// func keepingMemmove()
//
// It copies like runtime.memmove, also where source and destination overlap, and is called like it: AX = to, BX = from,
// CX = n. It changes AX, BX, CX, DX, R8, R9, X0 and X1 only, needs no stack, and reads no global variable, because an access to
// one goes through R15 in a plugin. wazero's machine code takes R12 to R15 to be kept.
TEXT ·keepingMemmove(SB), NOSPLIT|NOFRAME, $0-0
	CMPQ	CX, $32
	JHI	long
	CMPQ	CX, $16
	JCC	from16
	CMPQ	CX, $8
	JCC	from8
	CMPQ	CX, $4
	JCC	from4
	CMPQ	CX, $2
	JCC	from2
	TESTQ	CX, CX
	JEQ	done
	MOVB	(BX), DX
	MOVB	DX, (AX)
done:
	RET

// Two parts that can overlap: both are read before one is written.
from2:
	MOVW	(BX), DX
	MOVB	-1(BX)(CX*1), R8
	MOVW	DX, (AX)
	MOVB	R8, -1(AX)(CX*1)
	RET
from4:
	MOVL	(BX), DX
	MOVL	-4(BX)(CX*1), R8
	MOVL	DX, (AX)
	MOVL	R8, -4(AX)(CX*1)
	RET
from8:
	MOVQ	(BX), DX
	MOVQ	-8(BX)(CX*1), R8
	MOVQ	DX, (AX)
	MOVQ	R8, -8(AX)(CX*1)
	RET
from16:
	MOVOU	(BX), X0
	MOVOU	-16(BX)(CX*1), X1
	MOVOU	X0, (AX)
	MOVOU	X1, -16(AX)(CX*1)
	RET

long:
	MOVQ	AX, DX
	SUBQ	BX, DX
	CMPQ	DX, CX
	JCS	backward // to is inside of the source

	// Forwards, 16 bytes at once; the last 16 are read first and written last.
	MOVOU	-16(BX)(CX*1), X1
	LEAQ	-16(AX)(CX*1), R8
forward:
	MOVOU	(BX), X0
	MOVOU	X0, (AX)
	ADDQ	$16, BX
	ADDQ	$16, AX
	CMPQ	AX, R8
	JCS	forward
	MOVOU	X1, (R8)
	RET

	// Backwards; the first 16 are read first and written last.
backward:
	MOVOU	(BX), X1
	MOVQ	AX, R9
	ADDQ	CX, BX
	ADDQ	CX, AX
	ADDQ	$16, R9
again:
	SUBQ	$16, BX
	SUBQ	$16, AX
	MOVOU	(BX), X0
	MOVOU	X0, (AX)
	CMPQ	AX, R9
	JHI	again
	MOVOU	X1, -16(R9)
	RET

// The address of the function itself: Go code would get that of a wrapper, which takes its arguments from the stack.
DATA ·keepingMemmoveAddress(SB)/8, $·keepingMemmove(SB)
GLOBL ·keepingMemmoveAddress(SB), NOPTR, $8

// func callKeepingMemmove(to, from unsafe.Pointer, n uintptr, r15 uintptr) uintptr
TEXT ·callKeepingMemmove(SB), NOSPLIT, $0-40
	MOVQ	to+0(FP), AX
	MOVQ	from+8(FP), BX
	MOVQ	n+16(FP), CX
	MOVQ	R15, R10
	MOVQ	r15+24(FP), R15
	CALL	·keepingMemmove(SB)
	MOVQ	R15, R11
	MOVQ	R10, R15
	MOVQ	R11, ret+32(FP)
	RET
