//go:build !(gpu && cgo && linux && amd64)

package driver

// Supported reports whether this program was built with GPU support.
const Supported = false

// Find returns an error that says why there is no driver.
func Find() (*Driver, error) {
	return nil, none("this build has no GPU support (make build has, on linux/amd64 with cgo and gcc)")
}
