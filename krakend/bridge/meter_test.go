package bridge

import (
	"bytes"
	"context"
	"strings"
	"testing"
)

// endless is a module with a loop and without imports.
var endless = []byte("\x00asm\x01\x00\x00\x00" +
	"\x01\x04\x01\x60\x00\x00" + // a type: a function without parameters and results
	"\x03\x02\x01\x00" + // a function of this type
	"\x0a\x09\x01\x07\x00\x03\x40\x0c\x00\x0b\x0b") // its code: a loop that goes on

func TestAModuleWhoseLoopsCannotEndIsRefused(t *testing.T) {
	_, err := Compile(context.Background(), endless, CompileOptions{})
	if err == nil || !strings.Contains(err.Error(), "does not import env.proxy_set_effective_context") {
		t.Error(err)
	}
	// An instruction that the bridge does not know, in the place of the loop.
	_, err = meter(bytes.Replace(endless, []byte{0x03, 0x40}, []byte{0xfe, 0x40}, 1))
	if err == nil || !strings.Contains(err.Error(), "0xfe") {
		t.Error(err)
	}
}

// What a module counts with is behind its own globals, and nothing else of it changes.
func TestMeteringAddsToLoopsOnly(t *testing.T) {
	for _, test := range []struct {
		module []byte
		least  int
	}{{builtModule(t), 500}, {guestFile(t, "acts"), 1}, {guestFile(t, "empty"), 0}} {
		module := test.module
		metered, err := meter(module)
		if err != nil {
			t.Fatal(err)
		}
		head := []byte{0x45, 0x04, 0x40, 0x41, 0x80, 0x80, 0x04, 0x24}
		loops := bytes.Count(metered, head) - bytes.Count(module, head)
		if loops < test.least {
			t.Errorf("%d loops are counted", loops)
		}
		if grown := len(metered) - len(module); grown > 30*loops+20+len(module)/100 {
			t.Errorf("%d loops make %d bytes more", loops, grown)
		}
		again, err := meter(metered)
		if err != nil || bytes.Count(again, head)-bytes.Count(metered, head) != loops {
			t.Error("the metered module has other loops", err)
		}
	}
}

func TestABrokenModuleIsNoPanic(t *testing.T) {
	module := guestFile(t, "acts")
	for end := range module {
		if _, err := meter(module[:end]); err == nil && end < 8 {
			t.Errorf("%d bytes are a module", end)
		}
		for _, value := range []byte{0, 1, 0x7f, 0xff} {
			changed := bytes.Clone(module)
			changed[end] = value
			_, _ = meter(changed)
		}
	}
}
