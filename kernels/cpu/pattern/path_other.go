//go:build !cgo || !(amd64 || arm64)

package pattern

// vectorPaths returns none: they need cgo, and amd64 or arm64.
func vectorPaths() []path { return nil }
