package main

import (
	"bytes"
	"testing"
	"unsafe"
)

func TestTheMemmoveOfThePluginCopiesAndKeepsR15(t *testing.T) {
	const mark = 0x1234_5678_9abc_def0
	for n := range 200 {
		for _, shift := range []int{-200, -33, -17, -16, -15, -1, 0, 1, 7, 15, 16, 17, 31, 33, 64, 200} {
			given := make([]byte, 1024)
			for at := range given {
				given[at] = byte(at*7 + at>>8)
			}
			wanted := bytes.Clone(given)
			copy(wanted[400+shift:400+shift+n], given[400:400+n])
			if got := callKeepingMemmove(unsafe.Pointer(&given[400+shift]), unsafe.Pointer(&given[400]), uintptr(n), mark); got != mark {
				t.Fatalf("%d bytes by %d: R15 became %x", n, shift, got)
			}
			if !bytes.Equal(given, wanted) {
				t.Fatalf("%d bytes by %d: other bytes than copy gives", n, shift)
			}
		}
	}
}

func TestWazeroTakesTheMemmoveOfThePlugin(t *testing.T) {
	if !wazeroIsKnown {
		t.Fatal("this wazero has no variable memmovPtr: look at its internal/engine/wazevo/memmove.go, and whether it saves R15 by itself now")
	}
	if wazeroMemmove != keepingMemmoveAddress || keepingMemmoveAddress == 0 {
		t.Fatal("the address was not set")
	}
}
