// Package prefetch asks the processor to load memory before it is needed, without waiting. No address faults.
package prefetch

import "unsafe"

// Line loads the cache line of p.
//
//go:noescape
func Line(p unsafe.Pointer)

// Lines loads the cache lines of the 256 bytes from p.
//
//go:noescape
func Lines(p unsafe.Pointer)
