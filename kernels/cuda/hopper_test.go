package cuda_test

import (
	"os"
	"strings"
	"testing"

	"github.com/evald/evald/kernels/cuda/emutest"
)

// The emulation of Hopper's operations computes what sm90.h promises, and finds each mistake, in every order in which warps
// run and copies arrive.
func TestHopperEmulation(t *testing.T) {
	e := emutest.Build(t, t.TempDir(), []string{"-O2"}, "emu/emu.cpp", "emu/sm90.cpp", "emu/hopper_primitives.cpp")
	orders := []string{"0", "5"}
	if os.Getenv("EVALD_SOAK") != "" {
		orders = append(orders, "1", "2", "99")
	}
	for _, test := range []struct{ name, want, failure string }{
		{name: "product", want: "equal\n"},
		{name: "wide-product", want: "equal\n"},
		{name: "wide-wrong-distance", want: "differs\n"},
		{name: "rows-product", want: "equal\n"},
		{name: "rows-shift", failure: "*"},
		{name: "rows-part", failure: "*"},
		{name: "rows-pattern", failure: "is not of rows without a pattern"},
		{name: "rows-unfenced", failure: "which has not called fence_async"},
		{name: "rows-changed", failure: "*"},
		{name: "pairs", want: "b a\n"},
		{name: "phases", want: "1212\n"},
		{name: "registers"},
		{name: "early-sums", want: "poison equal\n"},
		{name: "plain-rows", want: "differs\n"},
		{name: "no-wait", failure: "*"},      // NaN, or the tile changes when the copy arrives
		{name: "wrong-parity", failure: "*"}, // the same, since nothing is waited for
		{name: "sums-changed", failure: "sums changed while products used them"},
		{name: "early-fragments", failure: "fragments changed while products used them"},
		{name: "tile-changed", failure: "changed while a product used it"},
		{name: "no-fence", failure: "sums of a product without multiply_fence before it"},
		{name: "no-second-fence", failure: "fragments of a product without multiply_fence before it"},
		{name: "generic-write", failure: "was accessed by thread 0, which has not called fence_async"},
		{name: "barrier-unfenced", failure: "was initialised by thread 0, which has not called fence_async"},
		{name: "no-pattern", failure: "is not of a tile in the pattern of 128 bytes"},
		{name: "misplaced", failure: "is not of a tile in the pattern of 128 bytes"},
		{name: "wrong-stride", want: "differs\n"},
		{name: "warps-differ", failure: "has another tile than that of its warpgroup"},
		{name: "one-less", failure: "has fewer products than its warpgroup"},
		{name: "no-commit", failure: "ends before its products are computed"},
		{name: "no-last-wait", failure: "ends before its products are computed"},
		{name: "too-many-arrivals", failure: "more arrivals than threads it waits for"},
		{name: "too-few-arrivals", failure: "which lacks 1 arrivals and 0 bytes"},
		{name: "bytes-too-few", failure: "gets more bytes than were announced"},
		{name: "bytes-too-many", failure: "which lacks 0 arrivals and 2048 bytes"},
		{name: "no-registers", failure: "deadlock: thread 128 waits for 240 registers"},
		{name: "lonely", failure: "waits for sync_some(1)"},
		{name: "no-barrier", failure: "there is no barrier at 0"},
		{name: "lost", failure: "the barrier at 0 is in phase 2, and thread 32 waits for phase 1"},
		{name: "share", want: "11 22 33 44 \n"},
		{name: "share-hidden", failure: "whose thread 0 has not called fence_barriers"},
		{name: "share-at-once", failure: "there is no barrier at 64"},
		{name: "share-not-free", failure: "*"},
		{name: "share-unfenced", failure: "the source of a copy, at"},
		{name: "share-changed", failure: "changed before it arrived"},
		{name: "share-no-end", failure: "*"},
		{name: "share-lonely-end", failure: "waits for sync_cluster"},
		{name: "share-three", failure: "reaches for block 2 of 2 of its cluster"},
	} {
		for _, order := range orders {
			out, log, err := e.Output(nil, test.name, order)
			if test.failure == "*" {
				if err == nil && string(out) != "differs\n" {
					t.Errorf("%s in order %s: %q, want a failure or a difference", test.name, order, out)
				}
				continue
			}
			if string(out) != test.want && test.failure == "" || (err != nil) != (test.failure != "") || !strings.Contains(log, test.failure) {
				t.Errorf("%s in order %s: %q, %v, %q; want %q, %q", test.name, order, out, err, log, test.want, test.failure)
			}
		}
	}
}
