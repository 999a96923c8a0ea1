//go:build !amd64

// Package prefetch does nothing on this architecture.
package prefetch

import "unsafe"

// Line would load the cache line of p.
func Line(unsafe.Pointer) {}

// Lines would load the cache lines of the 256 bytes from p.
func Lines(unsafe.Pointer) {}
