//go:build !cgo || !(amd64 || arm64)

package pattern

// vectorPaths needs cgo, and amd64 or arm64, so there are none here.
func vectorPaths() []path { return nil }
