//go:build !(cgo && amd64)

package conv

// paths are those that this build can take, the best first.
func paths() []*kernels { return []*kernels{&plain} }
