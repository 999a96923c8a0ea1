// Package prefetch asks the processor to load memory before it is needed, without waiting for it. It accepts any address: invalid ones do
// not fault.
package prefetch

import "unsafe"

// Line loads the cache line that contains p.
//
//go:noescape
func Line(p unsafe.Pointer)

// Lines loads the cache lines of the 256 bytes that begin at p.
//
//go:noescape
func Lines(p unsafe.Pointer)
