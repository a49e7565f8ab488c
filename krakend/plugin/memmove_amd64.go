package main

import "unsafe"

// wazero 1.12.0 (and later, as its source shows) compiles memory.copy into a call of runtime.memmove and takes R15 to be
// kept. In a plugin, Go code reaches global variables through R15, and memmove reads one, so memmove changes R15: under load
// most calls into the module trap, and KrakenD 2.13.8 itself ended with SIGSEGV at start. As long as wazero does not save the register, it gets a memmove that keeps it. A program
// that is no plugin needs none of this.
//
// wazero takes the address from this variable for each call engine that it makes.
//
//go:linkname wazeroMemmove github.com/tetratelabs/wazero/internal/engine/wazevo.memmovPtr
var wazeroMemmove uintptr

// keepingMemmove is not for Go code, because it takes its arguments in registers.
func keepingMemmove()

// callKeepingMemmove calls keepingMemmove with this value in R15, and returns what R15 is then. It is for tests.
//
//go:noescape
func callKeepingMemmove(to, from unsafe.Pointer, n, r15 uintptr) uintptr

// keepingMemmoveAddress is the address of keepingMemmove.
var keepingMemmoveAddress uintptr

// wazeroIsKnown says whether this wazero has the variable: the linker would make a new one without a word.
var wazeroIsKnown = wazeroMemmove != 0

func init() { wazeroMemmove = keepingMemmoveAddress }
