// Package python is the Python package evald, as files for wheels, and the tests of it. README.md is for its users.
package python

import "embed"

// Files are those of the package, in the folder evald.
//
//go:embed evald/*.py evald/py.typed
var Files embed.FS
