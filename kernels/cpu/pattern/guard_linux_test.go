package pattern

import (
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"unsafe"

	"github.com/evald/evald/engine/game/gametest"
)

// beforeGuard copies numbers to the end of a page that an unreadable page follows.
func beforeGuard[T any](t *testing.T, numbers []T) []T {
	page := syscall.Getpagesize()
	size := len(numbers) * int(unsafe.Sizeof(numbers[0]))
	whole := (size + page - 1) / page * page
	memory := gametest.Must(syscall.Mmap(-1, 0, whole+page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE))(t)
	t.Cleanup(func() { syscall.Munmap(memory) })
	gametest.OK(t, syscall.Mprotect(memory[whole:], syscall.PROT_NONE))
	guarded := unsafe.Slice((*T)(unsafe.Pointer(&memory[whole-size])), len(numbers))
	copy(guarded, numbers)
	return guarded
}

// No path reads beyond the table and the bias, whatever the lanes. If one did, this would be a fault.
func TestReadsNoFurther(t *testing.T) {
	for _, lanes := range []int{64, 96, 128, 160} {
		w := Random(rand.New(rand.NewPCG(1, 3)), 50, lanes, 16, 16)
		w.Table, w.Bias = beforeGuard(t, w.Table), beforeGuard(t, w.Bias)
		rows := []int32{3, 49, 49, 0}
		var want []int32
		for _, p := range slices.Backward(Paths()) { // plain Go first
			n := gametest.Must(New(w, p))(t)
			out := make([]int32, 2*Outputs)
			n.Forward(rows, 2, out)
			if want == nil {
				want = out
			}
			if !slices.Equal(out, want) {
				t.Errorf("%s, %d lanes: %v, want %v", p, lanes, out, want)
			}
		}
	}
}
