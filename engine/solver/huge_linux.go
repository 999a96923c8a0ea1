package solver

import (
	"syscall"
	"unsafe"
)

// adviseHuge asks for large pages, so that a probe of a big table does not also miss the TLB. A refusal costs only speed.
func adviseHuge(memory []byte) {
	const hugePage = 14 // MADV_HUGEPAGE
	page := uintptr(syscall.Getpagesize())
	if uintptr(len(memory)) < 4<<20 {
		return
	}
	skip := -uintptr(unsafe.Pointer(unsafe.SliceData(memory))) % page // the pages begin on a multiple of their size
	_ = syscall.Madvise(memory[skip:], hugePage)
}
