//go:build !(gpu && cgo && linux && amd64)

package driver

// Supported reports whether this program was built with GPU support.
const Supported = false

// Find returns an error that says why there is no driver.
func Find() (*Driver, error) {
	return nil, none("this program was built without GPU support, which make build adds on linux/amd64: https://github.com/evald/evald/blob/main/cmd/evald/guides/install.md#gpus")
}
