//go:build !(gpu && cgo && linux && amd64)

package gpu

func install(string) error { return nil }
