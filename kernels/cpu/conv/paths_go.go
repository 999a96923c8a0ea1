//go:build !(cgo && amd64)

package conv

// paths are the paths that this build can run, the best first.
func paths() []*kernels { return []*kernels{&plain} }
