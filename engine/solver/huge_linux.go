package solver

import (
	"syscall"
	"unsafe"
)

// adviseHuge asks for large pages, so that a probe of a big table misses only the cache and not also the TLB. If the system refuses, probes
// are only slower.
func adviseHuge(memory []byte) {
	const hugePage = 14 // MADV_HUGEPAGE
	page := uintptr(syscall.Getpagesize())
	if uintptr(len(memory)) < 4<<20 {
		return
	}
	skip := -uintptr(unsafe.Pointer(unsafe.SliceData(memory))) % page // pages begin at multiples of their size
	_ = syscall.Madvise(memory[skip:], hugePage)
}
