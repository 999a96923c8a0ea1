package cuda_test

import (
	"strings"
	"testing"

	"github.com/evald/evald/kernels/cuda/emutest"
)

// The emulation computes what device.h promises, and stops kernels that do what a GPU would punish now and then.
func TestEmulation(t *testing.T) {
	e := emutest.Build(t, t.TempDir(), []string{"-O2"}, "emu/emu.cpp", "emu/primitives.cpp")
	for _, test := range []struct{ name, order, want, failure string }{
		{name: "product", want: "equal\n"},
		{name: "product", order: "5", want: "equal\n"},
		{name: "rounding", want: "0 wrong\n"},
		{name: "copies", want: "ffffffff ffffffff, 1 ffffffff, 8\n"},
		{name: "conflicts", want: "4/4 4/4 16/4 32/4 \n"},
		{name: "exchange", want: "b a\n"},
		{name: "exchange", order: "1", want: "b a\n"},
		{name: "race", want: "ffffffff a\n"},
		{name: "race", order: "1", want: "b ffffffff\n"},
		{name: "diverged", failure: "warp 0 diverges: lane 0 is at a function of the warp, lane 7 at sync_block"},
		{name: "half-block", failure: "thread 0 is at sync_block, thread 32 at the end"},
		{name: "outside", failure: "4 bytes at 64 of 64 bytes of shared memory"},
		{name: "misaligned", failure: "16 bytes at 8 of"},
		{name: "copy-outside", failure: "copies from byte 16 of 16"},
		{name: "in-flight", failure: "ends before its copies have arrived"},
	} {
		order := test.order
		if order == "" {
			order = "0"
		}
		out, log, err := e.Output(nil, test.name, order)
		if string(out) != test.want || (err != nil) != (test.failure != "") || !strings.Contains(log, test.failure) {
			t.Errorf("%s in order %s: %q, %v, %q; want %q, %q", test.name, order, out, err, log, test.want, test.failure)
		}
	}
}
