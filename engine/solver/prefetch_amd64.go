package solver

import "unsafe"

// prefetch asks the processor to load a cache line and does not wait for it.
//
//go:noescape
func prefetch(p unsafe.Pointer)
