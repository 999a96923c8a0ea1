//go:build !amd64

package solver

import "unsafe"

func prefetch(unsafe.Pointer) {}
