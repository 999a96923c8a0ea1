//go:build !amd64

// Package prefetch does nothing on this architecture.
package prefetch

import "unsafe"

// Line does nothing here; elsewhere it loads the cache line of p.
func Line(unsafe.Pointer) {}

// Lines does nothing here; elsewhere it loads the cache lines of the 256 bytes from p.
func Lines(unsafe.Pointer) {}
