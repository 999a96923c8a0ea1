//go:build !amd64

// Package prefetch does nothing on this architecture.
package prefetch

import "unsafe"

// Line does nothing.
func Line(unsafe.Pointer) {}

// Lines does nothing.
func Lines(unsafe.Pointer) {}
